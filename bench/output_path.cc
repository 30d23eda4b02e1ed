// Measures forwarded output: rank processes write lines into pipes -> one sender process per agent -> TLS on loopback
// -> hub, labels -> a pipe that a child process empties. Prints one line per repetition and the median.
//   output_path [agents=4] [ranks per agent=4] [MiB per rank=64] [bytes per line=80] [repetitions=5] [fold=off]
// fold: off, equal (a FoldSink, and all ranks write equal lines) or different (a FoldSink, and each rank has its own).
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "agent/io/output_sender.h"
#include "base/net.h"
#include "launcherd/output/fold_sink.h"
#include "launcherd/output/output_hub.h"
#include "launcherd/output/sinks.h"
#include "proto/peer_names.h"

namespace {

using namespace muster;

struct Options {
  int agents = 4;
  int ranks = 4;
  std::size_t bytes = std::size_t{64} << 20;
  std::size_t line = 80;
  int repetitions = 5;
  std::string fold = "off";
};

template <typename T>
T must(base::Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "output_path: %s\n", result.status().message().c_str());
    std::exit(1);
  }
  return std::move(result).value();
}

[[noreturn]] void write_lines(int fd, int rank, const Options& options) {
  const char letter = static_cast<char>('a' + (options.fold == "different" ? rank % 26 : 0));
  std::string block;
  while (block.size() < 64 * 1024) block += std::string(options.line - 1, letter) + '\n';
  for (std::size_t left = options.bytes; left > 0;) {
    const std::size_t size = std::min(left, block.size());
    if (!base::write_all_blocking(fd, block.data(), size).ok()) _exit(1);
    left -= size;
  }
  _exit(0);
}

struct Job {
  std::string id = "benchjob";
  std::string token = "0123456789abcdef";
  std::uint16_t port = 0;
};

[[noreturn]] void run_agent(int index, const Options& options, const Job& job) {
  std::vector<pid_t> pids;
  std::vector<base::UniqueFd> outs;
  for (int i = 0; i < options.ranks; ++i) {
    base::FdPair pipe = must(base::make_pipe());
    const pid_t pid = fork();
    if (pid == 0) {
      signal(SIGPIPE, SIG_DFL);
      write_lines(pipe.second.get(), index * options.ranks + i, options);
    }
    pids.push_back(pid);
    outs.push_back(std::move(pipe.first));
  }
  agent::OutputSenderConfig config{
      .connect = [port = job.port](base::MonotonicTime, int) -> base::Result<base::UniqueFd> {
        base::UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const base::SockAddr to = base::make_sockaddr(must(base::IpAddress::parse("127.0.0.1")), port);
        if (connect(fd.get(), to.get(), to.size) != 0) return base::errno_error(errno, "connect");
        return fd;
      },
      .key = {proto::output_identity(job.id, index), job.token},
      .agent_index = index};
  agent::OutputSender sender(std::move(config), {});
  for (int i = 0; i < options.ranks; ++i) {
    sender.add_rank(index * options.ranks + i, std::move(outs[static_cast<std::size_t>(i)]), base::UniqueFd());
  }
  for (int i = 0; i < options.ranks; ++i) {
    waitpid(pids[static_cast<std::size_t>(i)], nullptr, 0);
    sender.rank_exited(index * options.ranks + i);
  }
  const base::Status status =
      sender.flush_and_close_blocking(std::chrono::steady_clock::now() + std::chrono::minutes(5));
  if (!status.ok()) std::fprintf(stderr, "agent %d: %s\n", index, status.message().c_str());
  std::fflush(stderr);
  _exit(status.ok() ? 0 : 1);
}

[[noreturn]] void empty_pipe(int fd) {
  std::vector<char> buffer(256 * 1024);
  while (read(fd, buffer.data(), buffer.size()) > 0) {
  }
  _exit(0);
}

double run_once(const Options& options) {
  Job job;
  base::UniqueFd listening = must(base::listen_any(0, 64));
  job.port = must(base::local_port(listening.get()));
  base::FdPair console = must(base::make_pipe());
  std::vector<pid_t> children;
  children.push_back(fork());
  if (children.back() == 0) {
    console.second.reset();
    empty_pipe(console.first.get());
  }
  console.first.reset();

  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < options.agents; ++i) {
    children.push_back(fork());
    if (children.back() == 0) {
      console.second.reset();
      run_agent(i, options, job);
    }
  }

  launcherd::Terminals terminals(console.second.get(), STDERR_FILENO);
  const base::SystemClock clock;
  const int size = options.agents * options.ranks;
  launcherd::ConsoleSink sink(terminals.out(), terminals.err(), &clock, {.size = size});
  std::unique_ptr<launcherd::FoldSink> fold;
  if (options.fold != "off") {
    fold = must(launcherd::FoldSink::create(&sink, &clock, {}));
    std::vector<int> all(static_cast<std::size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    fold->set_ranks(all);
  }
  std::promise<void> all_done;
  int left = options.agents;  // touched on the hub's thread only
  launcherd::OutputHubEvents events;
  events.on_agent_complete = [&](int) {
    if (--left == 0) all_done.set_value();
  };
  events.on_error = [](const base::Status& status) {
    std::fprintf(stderr, "output_path: %s\n", status.message().c_str());
  };
  auto hub = must(launcherd::OutputHub::start({}, std::move(listening)));
  hub->add_job(job.id, fold != nullptr ? static_cast<launcherd::OutputSink*>(fold.get()) : &sink, events);
  for (int i = 0; i < options.agents; ++i) {
    std::vector<int> ranks;
    for (int j = 0; j < options.ranks; ++j) ranks.push_back(i * options.ranks + j);
    const base::Status expected =
        hub->expect_agent(job.id, {.agent = i, .secret = job.token, .ranks = std::move(ranks)});
    if (!expected.ok()) std::fprintf(stderr, "output_path: %s\n", expected.message().c_str());
  }
  all_done.get_future().wait();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  hub->stop();
  fold.reset();
  console.second.reset();
  return took.count();
}

// User and system time in ms.
double cpu_ms(int who) {
  rusage usage{};
  getrusage(who, &usage);
  const auto ms = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (argc > 1) options.agents = std::atoi(argv[1]);
  if (argc > 2) options.ranks = std::atoi(argv[2]);
  if (argc > 3) options.bytes = static_cast<std::size_t>(std::atol(argv[3])) << 20;
  if (argc > 4) options.line = static_cast<std::size_t>(std::atol(argv[4]));
  if (argc > 5) options.repetitions = std::atoi(argv[5]);
  if (argc > 6) options.fold = argv[6];
  if (options.agents < 1 || options.ranks < 1 || options.line < 1 || options.repetitions < 1) {
    std::fprintf(stderr,
                 "usage: output_path [agents] [ranks per agent] [MiB per rank] [bytes per line] [repetitions] "
                 "[off|equal|different]\n");
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  std::vector<double> rates;
  for (int i = 0; i < options.repetitions; ++i) {
    const double total = static_cast<double>(options.bytes) * options.agents * options.ranks / 1e6;
    const double own_before = cpu_ms(RUSAGE_SELF);
    const double others_before = cpu_ms(RUSAGE_CHILDREN);
    rates.push_back(total / run_once(options));
    while (waitpid(-1, nullptr, 0) > 0) {
    }
    rusage own{};
    rusage others{};
    getrusage(RUSAGE_SELF, &own);
    getrusage(RUSAGE_CHILDREN, &others);
    std::printf(
        "%.0f MB/s, CPU ms/MB: launcher %.2f, agents, ranks and reader %.2f; launcher %ld KiB, largest other %ld KiB\n",
        rates.back(), (cpu_ms(RUSAGE_SELF) - own_before) / total, (cpu_ms(RUSAGE_CHILDREN) - others_before) / total,
        own.ru_maxrss, others.ru_maxrss);
  }
  std::sort(rates.begin(), rates.end());
  std::printf("median %.0f MB/s\n", rates[rates.size() / 2]);
  return 0;
}
