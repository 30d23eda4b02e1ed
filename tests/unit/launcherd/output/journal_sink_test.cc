#include "launcherd/output/journal_sink.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "launcherd/output/journal_reader.h"
#include "tests/unit/launcherd/output/journal_rig.h"

namespace muster::launcherd::journal_sink_test {
namespace {

using proto::OutputStream;

class JournalSinkTest : public testing_journal::JournalTest {
 protected:
  struct Read {
    JournalKind kind;
    int rank;
    std::string text;
    bool operator==(const Read&) const = default;
  };
  std::vector<Read> records() {
    const base::UniqueFd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    JournalReader reader(fd.get(), path_);
    std::vector<Read> found;
    for (;;) {
      const auto record = reader.next();
      EXPECT_TRUE(record.ok()) << record.status();
      if (!record.ok() || !record->has_value()) return found;
      const JournalHeader& header = (*record)->header;
      found.push_back({header.kind, static_cast<int>(header.rank), std::string((*record)->payload)});
    }
  }
  std::uint64_t kept_bytes() {
    std::uint64_t sum = 0;
    for (const Read& record : records()) sum += record.kind == JournalKind::kData ? record.text.size() : 0;
    return sum;
  }
  std::uint64_t lost_bytes() {
    std::uint64_t sum = 0;
    for (const Read& record : records()) {
      if (record.kind == JournalKind::kLost) sum += decode_lost_bytes(record.text);
    }
    return sum;
  }
};

TEST_F(JournalSinkTest, KeepsWhatCameInItsOrder) {
  auto sink = open();
  ASSERT_TRUE(sink);
  EXPECT_EQ(sink->past().bytes, 0U);
  sink->begin_attempt(0);
  sink->frame(0, 1);
  EXPECT_TRUE(sink->write(1, OutputStream::kStdout, "out\n", 0).ok());
  sink->frame(4, 1);
  EXPECT_TRUE(sink->write(9, OutputStream::kStderr, "er", proto::kPartial).ok());
  // The records are in the file before any flush, so an acknowledged frame survives a kill -9.
  EXPECT_EQ(records().size(), 3U);
  sink->frame(0, 2);
  EXPECT_TRUE(sink->end_rank(1).ok());
  sink->frame(4, 2);
  EXPECT_TRUE(sink->end_agent(4).ok());
  EXPECT_TRUE(sink->flush().ok());
  EXPECT_EQ(records(), (std::vector<Read>{{JournalKind::kAttempt, 0, ""},
                                          {JournalKind::kData, 1, "out\n"},
                                          {JournalKind::kData, 9, "er"},
                                          {JournalKind::kEndRank, 1, ""},
                                          {JournalKind::kEndAgent, 0, ""}}));
  struct stat about {};
  ASSERT_EQ(stat(path_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600U);
}

TEST_F(JournalSinkTest, ARestartKnowsWhatIsThere) {
  {
    auto sink = open();
    sink->begin_attempt(0);
    sink->frame(0, 9);
    EXPECT_TRUE(sink->end_rank(3).ok());
    sink->begin_attempt(1);
    for (std::uint64_t sequence = 1; sequence <= 5; ++sequence) {
      sink->frame(2, sequence);
      EXPECT_TRUE(sink->write(5, OutputStream::kStdout, "x\n", 0).ok());
    }
    sink->frame(2, 6);
    EXPECT_TRUE(sink->end_rank(5).ok());
    sink->frame(7, 1);
    EXPECT_TRUE(sink->end_agent(7).ok());
  }
  auto sink = open();
  ASSERT_TRUE(sink);
  const JournalPast& past = sink->past();
  EXPECT_EQ(past.attempt, 1);
  EXPECT_EQ(past.last_delivered, (std::map<int, std::uint64_t>{{2, 6}, {7, 1}}));
  EXPECT_EQ(past.ended_ranks, std::set<int>{5});
  EXPECT_EQ(past.finished_agents, std::set<int>{7});
  EXPECT_EQ(past.bytes, content().size());
  sink->frame(2, 7);
  EXPECT_TRUE(sink->write(6, OutputStream::kStdout, "more\n", 0).ok());
  EXPECT_EQ(records().back(), (Read{JournalKind::kData, 6, "more\n"}));
}

TEST_F(JournalSinkTest, ARestartKnowsHowMuchIsThereAndWhatIsGone) {
  {
    auto sink = open();
    sink->begin_attempt(0);
    sink->frame(2, 1);
    EXPECT_TRUE(sink->write(5, OutputStream::kStdout, "four", 0).ok());
    sink->frame(2, 7);
    EXPECT_TRUE(sink->lost(100, "n2").ok());
    sink->frame(3, 4);
    EXPECT_TRUE(sink->lost(5, "n3").ok());
    sink->frame(2, 8);
    EXPECT_TRUE(sink->write(5, OutputStream::kStdout, "more", 0).ok());
  }
  auto sink = open();
  ASSERT_TRUE(sink);
  const JournalPast& past = sink->past();
  EXPECT_EQ(past.last_delivered, (std::map<int, std::uint64_t>{{2, 8}, {3, 4}}));
  EXPECT_EQ(past.delivered_bytes, (std::map<int, std::uint64_t>{{2, 108}, {3, 5}}));
  EXPECT_EQ(past.gone, (std::map<std::string, std::uint64_t>{{"n2", 100}, {"n3", 5}}));
}

// A killed writer leaves a file that ends anywhere in a record. Whole frames stay, and the next one follows them.
TEST_F(JournalSinkTest, OfAFileCutAnywhereWholeRecordsStay) {
  std::string file;
  std::vector<std::size_t> ends{0};
  for (std::uint64_t sequence = 1; sequence <= 4; ++sequence) {
    file += testing_journal::data_record(0, std::string(sequence * 7, 'x') + "\n", sequence);
    ends.push_back(file.size());
  }
  for (std::size_t size = 0; size <= file.size(); ++size) {
    write_file(std::string_view(file).substr(0, size));
    auto sink = open();
    ASSERT_TRUE(sink);
    std::size_t whole = 0;
    while (whole + 1 < ends.size() && ends[whole + 1] <= size) ++whole;
    ASSERT_EQ(sink->past().bytes, ends[whole]) << size;
    const auto& last = sink->past().last_delivered;
    ASSERT_EQ(last.empty() ? 0 : last.at(0), whole) << size;
    sink->frame(0, whole + 1);
    ASSERT_TRUE(sink->write(0, OutputStream::kStdout, "again\n", 0).ok());
    sink.reset();
    ASSERT_EQ(content(), file.substr(0, ends[whole]) + content().substr(ends[whole])) << size;
    ASSERT_EQ(records().size(), whole + 1) << size;
    ASSERT_EQ(records().back().text, "again\n") << size;
  }
}

TEST_F(JournalSinkTest, ATailOfZerosIsNoDamage) {
  const std::string whole = testing_journal::data_record(0, "x\n");
  write_file(whole + std::string(100'000, '\0'));
  EXPECT_EQ(open()->past().bytes, whole.size());
  EXPECT_EQ(content(), whole);
  EXPECT_EQ(open()->past().damage, "");
  EXPECT_FALSE(std::filesystem::exists(path_ + ".damaged"));
}

// The job continues after its last whole record. No byte is destroyed.
TEST_F(JournalSinkTest, SetsApartWhatFollowsADamage) {
  const std::string whole = testing_journal::data_record(0, "x\n", 4);
  std::string rest = testing_journal::data_record(0, "y\n", 5) + testing_journal::data_record(0, "z\n", 6);
  rest[1] = '!';
  write_file(whole + rest);
  {
    const auto sink = open();
    ASSERT_TRUE(sink);
    EXPECT_EQ(sink->past().bytes, whole.size());
    EXPECT_EQ(sink->past().last_delivered.at(0), 4U);
    EXPECT_EQ(sink->past().damage, path_ + " is damaged at byte 46: no record of an output journal begins here: " +
                                       std::to_string(rest.size()) + " bytes from there on were moved to " + path_ +
                                       ".damaged");
    EXPECT_EQ(dir_.read("output.damaged"), rest);
    sink->frame(0, 5);
    EXPECT_TRUE(sink->write(0, OutputStream::kStdout, "again\n", 0).ok());
  }
  EXPECT_EQ(records().size(), 2U);
  write_file(whole + std::string(50, '\0') + "!");
  EXPECT_EQ(open()->past().bytes, whole.size());
  EXPECT_EQ(dir_.read("output.damaged"), rest + std::string(50, '\0') + "!");  // bytes of both damages
}

TEST_F(JournalSinkTest, GoesOnWhereADamageCannotBeSetApart) {
  ASSERT_EQ(symlink("/dev/full", (path_ + ".damaged").c_str()), 0);
  const std::string whole = testing_journal::data_record(0, "x\n");
  write_file(whole + std::string(50, '?'));
  const auto sink = open();
  ASSERT_TRUE(sink);
  EXPECT_EQ(sink->past().bytes, whole.size());
  EXPECT_NE(sink->past().damage.find("the rest is dropped"), std::string::npos) << sink->past().damage;
}

TEST_F(JournalSinkTest, OnlyAFileOfOursIsWritten) {
  EXPECT_EQ(JournalSink::open("/dev/full", &clock_).status().code(), base::Code::kFailedPrecondition);
  write_file("");
  ASSERT_EQ(symlink(path_.c_str(), (dir_ / "link").c_str()), 0);
  EXPECT_FALSE(JournalSink::open(dir_ / "link", &clock_).ok());
  EXPECT_EQ(JournalSink::open(dir_ / "none/output", &clock_).status().code(), base::Code::kNotFound);
}

TEST_F(JournalSinkTest, ReadersAreToldHowFarTheyMayRead) {
  std::vector<std::uint64_t> published;
  auto sink = open([&](std::uint64_t readable) { published.push_back(readable); });
  EXPECT_EQ(published, std::vector<std::uint64_t>{0});
  EXPECT_TRUE(sink->write(0, OutputStream::kStdout, "x\n", 0).ok());
  EXPECT_EQ(published.size(), 1U);
  EXPECT_TRUE(sink->flush().ok());
  EXPECT_TRUE(sink->flush().ok());  // no new output
  EXPECT_EQ(published, (std::vector<std::uint64_t>{0, journal_record_size(2)}));
  // A hub without rest does not flush.
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(sink->write(0, OutputStream::kStdout, std::string(100'000, 'x'), 0).ok());
  EXPECT_EQ(published.size(), 3U);
  sink->frame(0, 9);
  EXPECT_TRUE(sink->end_rank(0).ok());
  sink.reset();
  EXPECT_EQ(published.back(), content().size());
}

// Limits files to `size` bytes while it lives.
class FileLimit {
 public:
  explicit FileLimit(rlim_t size) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{size, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() { setrlimit(RLIMIT_FSIZE, &before_); }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  rlimit before_{};
};

TEST_F(JournalSinkTest, ARecordThatDoesNotFitIsCutOffAndCounted) {
  auto sink = open();
  sink->frame(0, 1);
  ASSERT_TRUE(sink->write(0, OutputStream::kStdout, "kept\n", 0).ok());
  {
    const FileLimit limit(content().size() + 100);  // room for the record of the loss
    sink->frame(0, 2);
    const base::Status status = sink->write(0, OutputStream::kStdout, std::string(1000, 'x'), 0);
    EXPECT_EQ(status.code(), base::Code::kResourceExhausted) << status;
    sink->frame(0, 3);
    EXPECT_TRUE(sink->write(0, OutputStream::kStdout, std::string(500, 'x'), 0).ok());  // reported only once
  }
  EXPECT_EQ(lost_bytes(), 1500U);
  EXPECT_EQ(records().size(), 2U);
  sink->frame(0, 4);
  EXPECT_TRUE(sink->write(0, OutputStream::kStdout, "again\n", 0).ok());
  EXPECT_EQ(records().back().text, "again\n");
  sink.reset();
  EXPECT_EQ(open()->past().last_delivered.at(0), 4U);
}

TEST_F(JournalSinkTest, WhatIsLostWithoutRoomToSaySoIsSaidLater) {
  std::uint64_t readable = 0;
  auto sink = open([&](std::uint64_t now) { readable = now; });
  sink->frame(3, 1);
  ASSERT_TRUE(sink->write(0, OutputStream::kStdout, "kept\n", 0).ok());
  {
    const FileLimit limit(content().size());
    sink->frame(3, 2);
    EXPECT_FALSE(sink->write(0, OutputStream::kStdout, "gone\n", 0).ok());
    sink->frame(3, 3);
    EXPECT_TRUE(sink->write(0, OutputStream::kStdout, "gone as well\n", 0).ok());
    EXPECT_EQ(records().size(), 1U);
  }
  sink->frame(3, 4);
  EXPECT_TRUE(sink->write(0, OutputStream::kStdout, "again\n", 0).ok());
  EXPECT_EQ(records().size(), 3U);
  EXPECT_EQ(lost_bytes(), 18U);
  EXPECT_TRUE(sink->flush().ok());
  EXPECT_EQ(readable, content().size());
}

// On a disk that is full to the last byte, the reserved space holds the ends of ranks and the records of losses.
TEST_F(JournalSinkTest, OnAFullDiskRanksStillEnd) {
  if (geteuid() != 0) GTEST_SKIP() << "mounting a small disk needs root";
  std::thread other([this] {  // its mounts affect only this thread
    if (unshare(CLONE_FS | CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", dir_.path().c_str(), "tmpfs", 0, "size=8m") != 0) {
      std::puts("this host mounts nothing for us");
      return;
    }
    std::vector<std::uint64_t> published;
    auto sink = open([&](std::uint64_t readable) { published.push_back(readable); });
    ASSERT_TRUE(sink);
    std::uint64_t sequence = 0;
    base::Status status;
    while (status.ok()) {
      ASSERT_LT(sequence, 1000U) << "this disk has no end";
      sink->frame(0, ++sequence);
      status = sink->write(0, OutputStream::kStdout, std::string(64 * 1024, 'x'), 0);
    }
    EXPECT_EQ(status.code(), base::Code::kResourceExhausted) << status;
    EXPECT_NE(status.message().find(path_), std::string::npos) << status;
    const std::uint64_t sequence_of_data = sequence;
    // 100 agents lose lines in turns, and all their ranks end.
    for (int agent = 0; agent < 100; ++agent) {
      for (int i = 0; i < 10; ++i) {
        sink->frame(agent, ++sequence);
        EXPECT_TRUE(sink->write(agent, OutputStream::kStdout, std::string(1000, 'x'), 0).ok());
      }
      sink->frame(agent, ++sequence);
      EXPECT_TRUE(sink->end_rank(agent).ok());
    }
    EXPECT_TRUE(sink->flush().ok());
    EXPECT_LT(published.back(), content().size());  // excludes records that may still change
    sink.reset();
    EXPECT_EQ(published.back(), content().size());
    EXPECT_EQ(lost_bytes() + kept_bytes(), sequence_of_data * 64 * 1024 + 100 * 10 * 1000);
    EXPECT_GT(lost_bytes(), 64U * 1024);
    const auto again = open();
    EXPECT_EQ(again->past().ended_ranks.size(), 100U);
    EXPECT_EQ(again->past().last_delivered.at(99), sequence);
    EXPECT_EQ(again->past().last_delivered.size(), 100U);
  });
  other.join();
}

}  // namespace
}  // namespace muster::launcherd::journal_sink_test
