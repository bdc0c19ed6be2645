#include "sim_engine/base/unfinished_files.h"

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace kernbench {

// Places are never freed: the handler of a signal may walk along them at any time.
struct UnfinishedFile::Place {
  std::atomic<bool> is_taken = false;
  std::atomic<char*> path = nullptr;  // whoever takes it out of here owns it
  std::atomic<pid_t> process = 0;     // the process that writes it
  Place* next = nullptr;              // written before the place is in the list
  static constinit std::atomic<Place*> first;
};
constinit std::atomic<UnfinishedFile::Place*> UnfinishedFile::Place::first = nullptr;

UnfinishedFile::Place& UnfinishedFile::free_place() {
  for (Place* place = Place::first; place != nullptr; place = place->next) {
    if (!place->is_taken.exchange(true)) return *place;
  }
  auto* const place = new Place{};
  place->is_taken = true;
  place->next = Place::first;
  while (!Place::first.compare_exchange_weak(place->next, place)) {
  }
  return *place;
}

UnfinishedFile::UnfinishedFile(const std::string& path) {
  place_ = &free_place();
  place_->process = ::getpid();
  place_->path = ::strdup(path.c_str());
  if (place_->path != nullptr) return;
  forget();
  throw std::bad_alloc();
}

UnfinishedFile::UnfinishedFile(UnfinishedFile&& other) noexcept
    : place_(std::exchange(other.place_, nullptr)) {}

UnfinishedFile& UnfinishedFile::operator=(UnfinishedFile&& other) noexcept {
  std::swap(place_, other.place_);
  return *this;
}

void UnfinishedFile::forget() noexcept {
  if (place_ == nullptr) return;
  std::free(place_->path.exchange(nullptr));
  std::exchange(place_, nullptr)->is_taken = false;
}

void remove_unfinished_files() noexcept {
  using Place = UnfinishedFile::Place;
  for (Place* place = Place::first; place != nullptr; place = place->next) {
    if (place->process != ::getpid()) continue;
    if (const char* const path = place->path.exchange(nullptr)) ::unlink(path);
  }
}

namespace {

void on_signal(int signal) {
  const int error = errno;
  remove_unfinished_files();
  ::signal(signal, SIG_DFL);
  ::raise(signal);
  errno = error;
}

bool ends_process(int signal) {
  switch (signal) {
    case SIGKILL:
    case SIGSTOP:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
    case SIGCONT:
    case SIGCHLD:
    case SIGURG:
    case SIGWINCH:
      return false;
    default:
      return true;
  }
}

}  // namespace

void remove_unfinished_files_on_signals() {
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    struct sigaction present {};
    if (!ends_process(signal) || ::sigaction(signal, nullptr, &present) != 0) continue;
    if (present.sa_handler != SIG_DFL) continue;
    struct sigaction ours {};
    ours.sa_handler = on_signal;
    ours.sa_flags = SA_NODEFER | SA_ONSTACK;
    ::sigemptyset(&ours.sa_mask);
    ::sigaction(signal, &ours, nullptr);
  }
}

bool removes_unfinished_files(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == on_signal;
}

void end_process(int exit_code) noexcept {
  remove_unfinished_files();
  ::_exit(exit_code);
}

}  // namespace kernbench
