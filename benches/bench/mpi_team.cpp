// Process teams over MPI: the processes that one `mpirun` has started.

#include <fmt/format.h>
#define OMPI_SKIP_MPICXX 1  // the C interface; MPI's own C++ one was removed from the standard
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <list>

#include "benches/bench/process_team.h"
#include "benches/bench/started_processes.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches {

namespace {

constexpr int kTag = 0;

void check(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw LimitError("KB-L005", "{}: {}", call, text);
}

class MpiTransport final : public TeamTransport {
 public:
  MpiTransport() {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    if (provided < MPI_THREAD_FUNNELED) {
      MPI_Finalize();
      throw LimitError("KB-L005", "MPI_Init_thread: this MPI allows no threads beside it");
    }
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  }
  ~MpiTransport() override {
    for (Letter& letter : under_way_) MPI_Wait(&letter.request, MPI_STATUS_IGNORE);
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void send(int to, const std::string& text) override {
    Letter& letter = under_way_.emplace_back(text);
    check(MPI_Isend(letter.text.data(), static_cast<int>(letter.text.size()), MPI_BYTE, to, kTag,
                    MPI_COMM_WORLD, &letter.request),
          "MPI_Isend");
    forget_the_sent();
  }

  std::optional<Received> receive() override {
    forget_the_sent();
    int has_come = 0;
    MPI_Status status;
    check(MPI_Iprobe(MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &has_come, &status), "MPI_Iprobe");
    if (has_come == 0) return std::nullopt;
    int length = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &length), "MPI_Get_count");
    Received received{.from = status.MPI_SOURCE, .text = {}};
    received.text.resize(static_cast<std::size_t>(length));
    check(MPI_Recv(received.text.data(), length, MPI_BYTE, received.from, kTag, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE),
          "MPI_Recv");
    return received;
  }

 private:
  struct Letter {
    explicit Letter(std::string its_text) : text(std::move(its_text)) {}
    std::string text;  // MPI reads it until the request is complete
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void forget_the_sent() {
    std::erase_if(under_way_, [](Letter& letter) {
      int is_complete = 0;
      check(MPI_Test(&letter.request, &is_complete, MPI_STATUS_IGNORE), "MPI_Test");
      return is_complete != 0;
    });
  }

  int rank_ = 0;
  int size_ = 1;
  std::list<Letter> under_way_;  // a letter must not move
};

}  // namespace

std::unique_ptr<ProcessTeam> join_process_team() {
  const int count = started_processes();
  if (count < 2) return nullptr;
  auto transport = std::make_unique<MpiTransport>();
  if (transport->size() == count) return std::make_unique<ProcessTeam>(std::move(transport));
  const int size = transport->size();
  transport.reset();
  refuse_to_start(fmt::format("MPI knows of {}", size),
                  "start it with the mpirun of the MPI that it was built with");
}

}  // namespace kernbench::benches
