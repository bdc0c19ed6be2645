#include "test/fuzz/campaign.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <stdexcept>

#include "test/fuzz/mutations.h"
#include "test/fuzz/random.h"
#include "test/fuzz/scratch_file.h"
#include "test/fuzz/shared_state.h"

namespace kernbench::fuzz {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kFound = 3;                       // the exit code of a child with a finding
constexpr std::size_t kMaxKeptInput = 1 << 14;  // longer ones slow down all that come of them
constexpr std::size_t kOneInBlownUp = 2000;     // how rarely an input becomes very long
constexpr unsigned kIdleLimit_s = 300;          // for a run that waits and computes nothing

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// True if a quote ends a name: a quote in the name itself mostly has another letter behind it.
bool closes(std::string_view behind) {
  return behind.empty() ||
         std::string_view(" ;,.:?)]").find(behind.front()) != std::string_view::npos;
}

// Returns the text of an error without what is particular to it: numbers, and names in quotes.
std::string template_of(std::string_view line) {
  std::string result;
  bool in_quotes = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\'') in_quotes = !in_quotes || !closes(line.substr(i + 1));
    if (!in_quotes && (c < '0' || c > '9')) result += c;
  }
  return result;
}

double cpu_seconds() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// SIGPROF ends the process when it has computed for so long.  0 switches it off.
void set_limit(double seconds) {
  itimerval limit = {};
  limit.it_value.tv_sec = static_cast<time_t>(seconds);
  limit.it_value.tv_usec =
      static_cast<suseconds_t>(1e6 * (seconds - static_cast<double>(limit.it_value.tv_sec)));
  ::setitimer(ITIMER_PROF, &limit, nullptr);
}

std::string describe_end(int status, double limit_s) {
  if (WIFEXITED(status)) return fmt::format("exit code {}", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  if (signal == SIGPROF) return fmt::format("has not ended within {} s of CPU time", limit_s);
  if (signal == SIGALRM) return fmt::format("has waited for {} s", kIdleLimit_s);
  return fmt::format("signal {} ({})", signal, ::strsignal(signal));
}

// Runs `work` in a child, which must not return.  Returns how it ended; empty if it was in order.
std::string end_of_child(const SharedState& shared, double limit_s,
                         const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // it does not go on without its parent
    work();
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  const bool has_found = WIFEXITED(status) && WEXITSTATUS(status) == kFound;
  return has_found ? std::string(shared.finding()) : describe_end(status, limit_s);
}

// One run; ends the child with kFound if the parser does what it must not.
Verdict run_once(SharedState& shared, const Parser& parser, double limit_s) {
  // A copy of the exact size, so that a sanitizer sees what is read beside it.
  const std::vector<char> input(shared.input().begin(), shared.input().end());
  set_limit(limit_s);
  ::alarm(kIdleLimit_s);
  Verdict verdict = verdict_of(parser, {input.data(), input.size()});
  set_limit(0);
  if (verdict.kind != Verdict::Kind::finding) return verdict;
  shared.set_finding(verdict.text);
  ::_exit(kFound);
}

class Campaign {
 public:
  Campaign(const Parser& parser, const CampaignOptions& options)
      : parser_(parser), options_(options) {
    for (const fs::path& file : input_files(parser, options.root)) {
      seeds_.push_back(read_bytes(file));
    }
    if (seeds_.empty()) seeds_.emplace_back();
    for (const std::string& seed : seeds_) {
      for (std::string& word : words_in(seed)) material_.words.push_back(std::move(word));
    }
    std::string_view words = parser.words;
    while (!words.empty()) {
      const std::size_t size = std::min(words.find(' '), words.size());
      material_.words.emplace_back(words.substr(0, size));
      words.remove_prefix(std::min(size + 1, words.size()));
    }
    scratch_folder();  // a child's would stay behind
  }

  CampaignResult run() {
    const auto begin = Clock::now();
    deadline_ = begin + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(options_.seconds));
    while (!is_done()) {
      const std::string end = end_of_child(shared_, options_.limit_s, [&] { run_all(); });
      if (end.empty()) break;
      note_failure(end);
      ++shared_.counters().run;
    }
    result_.runs = shared_.counters().run;
    result_.accepted = shared_.counters().accepted;
    result_.slowest_s = shared_.counters().slowest_s;
    result_.kept = shared_.kept_count();
    result_.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    return std::move(result_);
  }

 private:
  bool is_done() {
    if (result_.failed_runs >= options_.max_failed_runs) return true;
    if (options_.runs != 0 && shared_.counters().run >= options_.runs) return true;
    return options_.seconds > 0 && Clock::now() >= deadline_;
  }

  // Runs in the child.
  void run_all() {
    while (!is_done()) {
      shared_.set_input(make_input());
      const double before = cpu_seconds();
      const Verdict verdict = run_once(shared_, parser_, options_.limit_s);
      auto& counters = shared_.counters();
      counters.slowest_s = std::max(counters.slowest_s, cpu_seconds() - before);
      if (verdict.kind == Verdict::Kind::accepted) ++counters.accepted;
      if (has_news(verdict) && shared_.input().size() <= kMaxKeptInput) {
        shared_.keep(shared_.input());
      }
      ++counters.run;
    }
  }

  bool has_news(const Verdict& verdict) {
    bool is_new = false;
    for (std::string_view rest = verdict.text; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      is_new = shared_.is_new(hash_of(template_of(line))) || is_new;
    }
    return is_new;
  }

  std::string any_input(Random& random) {
    const std::size_t kept = shared_.kept_count();
    if (kept > 0 && random.one_in(2)) return std::string(shared_.kept(random.below(kept)));
    return random.pick(seeds_);
  }

  std::string make_input() {
    Random random(options_.seed * 0x9e3779b97f4a7c15 + shared_.counters().run);
    std::string input = any_input(random);
    const std::string other = any_input(random);
    material_.other = &other;
    for (std::size_t count = 1 + random.small_below(12); count > 0; --count) {
      random.pick(mutations())(input, random, material_);
    }
    if (random.one_in(kOneInBlownUp)) blow_up(input, random);
    material_.other = nullptr;
    return input;
  }

  void note_failure(const std::string& text) {
    ++result_.failed_runs;
    if (!told_.insert(template_of(text.substr(0, text.find('\n')))).second) return;
    const std::string input(shared_.input());
    fs::create_directories(options_.failures);
    const fs::path file =
        options_.failures / fmt::format("{}-{:016x}", parser_.name, hash_of(input));
    std::ofstream(file, std::ios::binary) << input;
    result_.failures.push_back({shared_.counters().run, file, text});
  }

  const Parser& parser_;
  const CampaignOptions& options_;
  std::vector<std::string> seeds_;
  Material material_;
  SharedState shared_;
  CampaignResult result_;
  std::set<std::string> told_;
  Clock::time_point deadline_;
};

void add_files(const fs::path& path, std::vector<fs::path>& files) {
  if (!fs::is_directory(path)) {
    if (fs::exists(path)) files.push_back(path);
    return;
  }
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_regular_file() && entry.path().extension() != ".md") files.push_back(entry.path());
  }
}

}  // namespace

CampaignResult run_campaign(const Parser& parser, const CampaignOptions& options) {
  return Campaign(parser, options).run();
}

std::string failure_of(const Parser& parser, const std::string& input, double limit_s) {
  scratch_folder();
  SharedState shared;
  shared.set_input(input);
  return end_of_child(shared, limit_s, [&] { run_once(shared, parser, limit_s); });
}

std::vector<fs::path> input_files(const Parser& parser, const fs::path& root) {
  std::vector<fs::path> files;
  for (const std::string_view path : parser.shipped) add_files(root / path, files);
  add_files(root / "test/fuzz/corpus" / parser.name, files);
  std::ranges::sort(files);
  return files;
}

std::string read_bytes(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot read " + file.string());
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace kernbench::fuzz
