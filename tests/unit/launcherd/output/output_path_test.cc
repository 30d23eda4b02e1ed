// Tests sender, TLS, hub and sinks together, over real pipes and TCP on 127.0.0.1.
#include <malloc.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>

#include <gtest/gtest.h>

#include "proto/channel_mux.h"
#include "tests/unit/launcherd/output/output_rig.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::testing_output::output_path_test {
namespace {

using launcherd::ConsoleSink;
using launcherd::FileSink;
using launcherd::TeeSink;
using launcherd::Terminals;
using proto::OutputStream;
using testing_support::TempDir;

constexpr int kLines = kSanitized ? 4000 : 100'000;

// Runs `agents` senders with `ranks` writer threads each. Returns what the writers wrote, by rank.
struct Fleet {
  Fleet(Rig* rig, int agents, int ranks, std::uint16_t port = 0) {
    for (int a = 0; a < agents; ++a) {
      std::vector<int> numbers;
      agent::OutputSenderConfig config = rig->sender_config(a, port);
      config.partial_line_after = std::chrono::minutes(10);  // so long that a stalled machine cuts no lines
      senders.push_back(std::make_unique<agent::OutputSender>(config, rig->log.sender_events()));
      for (int r = 0; r < ranks; ++r) numbers.push_back(a * ranks + r);
      rig->expect(a, numbers);
      for (const int rank : numbers) {
        auto out = std::make_shared<base::FdPair>(must(base::make_pipe()));
        senders.back()->add_rank(rank, std::move(out->first), base::UniqueFd());
        agent::OutputSender* const sender = senders.back().get();
        writers.emplace_back([this, rank, out, sender] {
          const Digest digest = write_content(out->second.get(), static_cast<unsigned>(rank), kLines);
          {
            const std::lock_guard lock(mutex);
            written[rank] = digest;
          }
          out->second.reset();
          sender->rank_exited(rank);
        });
      }
    }
  }
  ~Fleet() {
    for (std::thread& writer : writers) writer.join();
  }
  void finish() {
    for (auto& sender : senders) {
      const base::Status status = sender->flush_and_close_blocking(in_seconds(300));
      EXPECT_TRUE(status.ok()) << status;
    }
  }

  std::vector<std::unique_ptr<agent::OutputSender>> senders;
  std::vector<std::thread> writers;
  std::mutex mutex;
  std::map<int, Digest> written;
};

// Splits a console into the text of each rank without labels. Counts the lines that it cannot explain.
class ConsoleParser {
 public:
  void add(std::string_view text) {
    rest_.append(text);
    std::size_t at = 0;
    for (;;) {
      const std::size_t end = rest_.find_first_of("\r\n", at);
      if (end == std::string::npos || end + 1 == rest_.size()) break;  // "\r\n" may be cut in two
      const std::size_t after = rest_[end] == '\r' && rest_[end + 1] == '\n' ? end + 2 : end + 1;
      line(std::string_view(rest_).substr(at, after - at));
      at = after;
    }
    rest_.erase(0, at);
  }
  void end() {
    if (!rest_.empty()) line(rest_);
  }
  std::map<int, Digest> ranks;
  int unexplained = 0;

 private:
  void line(std::string_view line) {
    constexpr std::string_view kMark = "]<stdout>:";
    const std::size_t mark = line.find(kMark);
    if (!line.starts_with('[') || mark == std::string_view::npos || mark > 4) {
      ++unexplained;
      return;
    }
    ranks[std::stoi(std::string(line.substr(1, mark - 1)))].add(line.substr(mark + kMark.size()));
  }
  std::string rest_;
};

// Reads a pipe on its own thread, and the first `slow_bytes` at about 5 MB/s.
class ConsoleReader {
 public:
  ConsoleReader(base::UniqueFd fd, std::size_t slow_bytes) : fd_(std::move(fd)), slow_bytes_(slow_bytes) {
    thread_ = std::thread([this] { run(); });
  }
  ConsoleParser& join() {
    thread_.join();
    return parser_;
  }

 private:
  void run() {
    std::vector<char> buffer(64 * 1024);
    std::size_t total = 0;
    base::MonotonicTime due = std::chrono::steady_clock::now();
    for (;;) {
      if (total < slow_bytes_) {
        due += std::chrono::milliseconds(13);
        std::this_thread::sleep_until(due);  // the test is about this pace, not about an order of events
      }
      const ssize_t got = read(fd_.get(), buffer.data(), buffer.size());
      if (got <= 0) break;
      total += static_cast<std::size_t>(got);
      parser_.add({buffer.data(), static_cast<std::size_t>(got)});
    }
    parser_.end();
  }
  base::UniqueFd fd_;
  const std::size_t slow_bytes_;
  ConsoleParser parser_;
  std::thread thread_;
};

Digest file_digest(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Digest digest;
  std::vector<char> buffer(64 * 1024);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || file.gcount() > 0) {
    digest.add({buffer.data(), static_cast<std::size_t>(file.gcount())});
  }
  return digest;
}

long peak_kib() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("VmHWM:")) return std::stol(line.substr(6));
  }
  return -1;
}

// Restarts the measurement of the peak, without memory that earlier tests have freed. Returns the current value.
long begin_peak_kib() {
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
  return peak_kib();
}

// The final line has no newline; the console adds one.
Digest with_newline(Digest digest) {
  digest.add("\n");
  return digest;
}

TEST(OutputPath, SixteenRanksReachConsoleAndFilesUnharmedWithASlowConsole) {
  TempDir folder;
  base::FdPair console = must(base::make_pipe());
  auto files = must(FileSink::create(folder.path() + "/logs", 16));
  const base::SystemClock clock;
  auto terminals = std::make_unique<Terminals>(console.second.get(), STDERR_FILENO);
  ConsoleSink console_sink(terminals->out(), terminals->err(), &clock, {.size = 16});
  TeeSink both(&console_sink, files.get());
  std::unique_ptr<Rig> rig = std::make_unique<Rig>(&both);
  const std::size_t slow_bytes = kSanitized ? 1 << 20 : 10 << 20;
  ConsoleReader reader(std::move(console.first), slow_bytes);
  {
    Fleet fleet(rig.get(), 4, 4);
    fleet.finish();
    EXPECT_TRUE(rig->log.wait([&] { return rig->log.complete.size() == 4; }));
    rig->hub().stop();
    console.second.reset();
    terminals.reset();  // it holds the pipe, too, and the reader waits for the last writer
    for (std::thread& writer : fleet.writers) writer.join();
    fleet.writers.clear();
    for (const auto& [rank, digest] : fleet.written) {
      EXPECT_EQ(rig->log.ended[rank].first, digest.bytes);
      EXPECT_EQ(file_digest(fmt::format("{}/logs/rank.{:02}/stdout", folder.path(), rank)), digest) << "rank " << rank;
      EXPECT_EQ(file_digest(fmt::format("{}/logs/rank.{:02}/stderr", folder.path(), rank)).bytes, 0U);
    }
    ConsoleParser& parser = reader.join();
    EXPECT_EQ(parser.unexplained, 0);
    for (const auto& [rank, digest] : fleet.written) EXPECT_EQ(parser.ranks[rank], with_newline(digest)) << rank;
  }
  EXPECT_TRUE(rig->log.errors.empty());
  if (!kSanitized) {  // the launcher and four agents share this process
    EXPECT_LT(peak_kib(), 64 * 1024);
  }
}

// 128 ranks of one host, each with a long unfinished line on both streams.
TEST(OutputPath, ManyUnfinishedLinesStayWithinMemory) {
  constexpr int kRanks = 128;
  const std::string piece(95'000, 'x');
  const long before = begin_peak_kib();
  DigestSink sink;
  Rig rig(&sink);
  agent::OutputSenderConfig config = rig.sender_config(0);
  config.partial_line_after = std::chrono::minutes(10);
  agent::OutputSender sender(config, rig.log.sender_events());
  std::vector<int> numbers;
  for (int rank = 0; rank < kRanks; ++rank) numbers.push_back(rank);
  rig.expect(0, numbers);
  std::vector<base::UniqueFd> ends;
  for (const int rank : numbers) {
    base::FdPair out = must(base::make_pipe());
    base::FdPair err = must(base::make_pipe());
    sender.add_rank(rank, std::move(out.first), std::move(err.first));
    ends.push_back(std::move(out.second));
    ends.push_back(std::move(err.second));
  }
  for (const base::UniqueFd& end : ends) {
    EXPECT_TRUE(base::write_all_blocking(end.get(), piece.data(), piece.size()).ok());
  }
  for (base::UniqueFd& end : ends) {
    EXPECT_TRUE(base::write_all_blocking(end.get(), "\n", 1).ok());
    end.reset();
  }
  for (const int rank : numbers) sender.rank_exited(rank);
  EXPECT_TRUE(sender.flush_and_close_blocking(in_seconds(60)).ok());
  for (const int rank : numbers) {
    EXPECT_EQ(sink.digest(rank, OutputStream::kStdout).bytes, piece.size() + 1);
    EXPECT_EQ(sink.digest(rank, OutputStream::kStderr).bytes, piece.size() + 1);
  }
  EXPECT_EQ(sink.broken(), 0);
  if (!kSanitized) {
    EXPECT_LT(peak_kib() - before, 52 * 1024);  // an empty process uses 12 MiB
  }
}

TEST(OutputPath, TwentyCutsLoseAndDoubleNothing) {
  DigestSink sink;
  Rig rig(&sink);
  std::mt19937 random(20);
  std::vector<std::size_t> cuts;
  for (int i = 0; i < 20; ++i) cuts.push_back(1 + random() % (i % 4 == 0 ? 3000 : kSanitized ? 60'000 : 3'000'000));
  Relay relay(rig.port(), cuts);
  Fleet fleet(&rig, 1, 4, relay.port());
  fleet.finish();
  EXPECT_TRUE(rig.log.wait([&] { return rig.log.complete.count(0) == 1; }));
  rig.hub().stop();
  EXPECT_EQ(relay.cuts_done(), 20);
  const std::lock_guard lock(fleet.mutex);
  for (const auto& [rank, digest] : fleet.written) EXPECT_EQ(sink.digest(rank), digest) << "rank " << rank;
  EXPECT_EQ(fleet.written.size(), 4U);
  EXPECT_EQ(sink.broken(), 0);
}

TEST(OutputPath, OverTheMuxAsOverTcp) {
  DigestSink sink;
  Rig rig(&sink);
  base::FdPair channel = must(base::make_socketpair(SOCK_STREAM));
  base::FdPair here = must(base::make_socketpair(SOCK_STREAM));
  base::FdPair there = must(base::make_socketpair(SOCK_STREAM));
  const auto one = [](base::UniqueFd fd) {
    std::vector<base::UniqueFd> locals;
    locals.push_back(std::move(fd));
    return locals;
  };
  base::UniqueFd launcher_out(dup(channel.first.get()));
  base::UniqueFd agent_out(dup(channel.second.get()));
  proto::Mux launcher_mux(std::move(channel.first), std::move(launcher_out), one(std::move(here.first)), nullptr);
  proto::Mux agent_mux(std::move(channel.second), std::move(agent_out), one(std::move(there.first)), nullptr);
  rig.hub().add_connection(std::move(here.second));
  agent::OutputSenderConfig config = rig.sender_config(0);
  auto end = std::make_shared<base::UniqueFd>(std::move(there.second));
  config.connect = [end](base::MonotonicTime, int) -> base::Result<base::UniqueFd> {
    if (!end->valid()) return base::error(base::Code::kFailedPrecondition, "the channel is gone");
    return std::move(*end);
  };
  rig.expect(0, {0});
  agent::OutputSender sender(config, rig.log.sender_events());
  base::FdPair out = must(base::make_pipe());
  sender.add_rank(0, std::move(out.first), base::UniqueFd());
  const Digest written = write_content(out.second.get(), 7, kLines / 4);
  out.second.reset();
  sender.rank_exited(0);
  EXPECT_TRUE(sender.flush_and_close_blocking(in_seconds(60)).ok());
  EXPECT_EQ(sink.digest(0), written);
}

TEST(OutputPath, AFullDiskIsReportedOnceAndBlocksNobody) {
  TempDir folder;
  const std::string disk = folder.path() + "/disk";
  ASSERT_EQ(mkdir(disk.c_str(), 0700), 0);
  const bool is_mounted = mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=256k") == 0;
  auto files = must(FileSink::create(disk, 1));
  if (!is_mounted) {  // an ordinary user takes the device that is always full
    ASSERT_EQ(unlink((disk + "/rank.0/stdout").c_str()), 0);
    ASSERT_EQ(symlink("/dev/full", (disk + "/rank.0/stdout").c_str()), 0);
    files = must(FileSink::create(disk, 1));
  }
  {
    Rig rig(files.get());
    OneRank rank(&rig, rig.sender_config(0));
    rank.say(std::string(1 << 20, '\n'));
    rank.close();
    rank.sender.rank_exited(0);
    EXPECT_TRUE(rank.sender.flush_and_close_blocking(in_seconds(20)).ok());
    EXPECT_TRUE(rig.log.wait([&] { return rig.log.complete.count(0) == 1; }));
    rig.hub().stop();
    ASSERT_EQ(rig.log.errors.size(), 1U);
    EXPECT_EQ(rig.log.errors[0].code(), base::Code::kResourceExhausted);
    EXPECT_NE(rig.log.errors[0].message().find(disk + "/rank.0/stdout"), std::string::npos) << rig.log.errors[0];
  }
  files.reset();
  if (is_mounted) {
    EXPECT_EQ(umount(disk.c_str()), 0);
  }
}

// Raises the limit so that every rank can have its pipes.
void raise_descriptor_limit() {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
}

// One agent whose ranks write at the same time, a hundred lines each in turn. Adds what each has written to `written`.
void write_lines(agent::OutputSender& sender, int first_rank, std::vector<base::UniqueFd> pipes, int lines,
                 std::map<int, Digest>& written) {
  constexpr int kAtOnce = 100;
  for (int line = 0; line < lines; line += kAtOnce) {
    for (std::size_t i = 0; i < pipes.size(); ++i) {
      const int rank = first_rank + static_cast<int>(i);
      std::string text;
      for (int k = 0; k < kAtOnce; ++k) text += fmt::format("{} of rank {}\n", line + k, rank);
      written.at(rank).add(text);
      EXPECT_TRUE(base::write_all_blocking(pipes[i].get(), text.data(), text.size()).ok());
    }
  }
  for (std::size_t i = 0; i < pipes.size(); ++i) {
    pipes[i].reset();
    sender.rank_exited(first_rank + static_cast<int>(i));
  }
}

// Last test, because the heap that it leaves would count against the tests that measure memory.
TEST(OutputPath, AThousandRanksWithTenThousandLinesEach) {
  constexpr int kAgents = 8;
  constexpr int kRanks = 125;  // ranks per agent
  constexpr int kLinesEach = kSanitized ? 200 : 10'000;
  raise_descriptor_limit();
  base::FdPair console = must(base::make_pipe());
  const base::SystemClock clock;
  auto terminals = std::make_unique<Terminals>(console.second.get(), STDERR_FILENO);
  ConsoleSink sink(terminals->out(), terminals->err(), &clock, {.size = kAgents * kRanks});
  auto rig = std::make_unique<Rig>(&sink);
  ConsoleReader reader(std::move(console.first), 0);
  std::map<int, Digest> written;
  for (int rank = 0; rank < kAgents * kRanks; ++rank) written[rank];
  std::vector<std::unique_ptr<agent::OutputSender>> senders;
  std::vector<std::thread> writers;
  for (int a = 0; a < kAgents; ++a) {
    agent::OutputSenderConfig config = rig->sender_config(a);
    config.partial_line_after = std::chrono::minutes(10);  // so long that a stalled machine cuts no lines
    senders.push_back(std::make_unique<agent::OutputSender>(config, rig->log.sender_events()));
    std::vector<int> numbers;
    for (int rank = a * kRanks; rank < (a + 1) * kRanks; ++rank) numbers.push_back(rank);
    rig->expect(a, numbers);
    std::vector<base::UniqueFd> pipes;
    for (const int rank : numbers) {
      base::FdPair out = must(base::make_pipe());
      senders.back()->add_rank(rank, std::move(out.first), base::UniqueFd());
      pipes.push_back(std::move(out.second));
    }
    auto shared = std::make_shared<std::vector<base::UniqueFd>>(std::move(pipes));
    writers.emplace_back([sender = senders.back().get(), a, shared, &written] {
      write_lines(*sender, a * kRanks, std::move(*shared), kLinesEach, written);
    });
  }
  for (auto& sender : senders) EXPECT_TRUE(sender->flush_and_close_blocking(in_seconds(240)).ok());
  for (std::thread& writer : writers) writer.join();
  EXPECT_TRUE(rig->log.wait([&] { return rig->log.complete.size() == kAgents; }));
  rig->hub().stop();
  console.second.reset();
  terminals.reset();
  ConsoleParser& parser = reader.join();
  EXPECT_EQ(parser.unexplained, 0);
  ASSERT_EQ(parser.ranks.size(), written.size());
  for (const auto& [rank, digest] : written) ASSERT_EQ(parser.ranks[rank], digest) << rank;
  EXPECT_TRUE(rig->log.errors.empty());
}

}  // namespace
}  // namespace muster::testing_output::output_path_test
