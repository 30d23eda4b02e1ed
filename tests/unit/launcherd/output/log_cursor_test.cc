#include "launcherd/output/log_cursor.h"

#include "tests/unit/launcherd/output/journal_rig.h"

namespace muster::launcherd::log_cursor_test {
namespace {

using proto::OutputStream;

class LogCursorTest : public testing_journal::JournalTest {
 protected:
  struct Read {
    std::string text;  // text of all chunks
    std::vector<v1::LogChunk> chunks;
    base::Status status;
  };
  // Reads until the cursor is dry or fails.
  Read read(LogQuery query, std::optional<std::uint64_t> readable = std::nullopt) {
    query.path = path_;
    LogCursor cursor(std::move(query));
    Read all;
    for (;;) {
      LogPage page;
      const auto state = cursor.read(readable, &page);
      all.status = state.status();
      for (const auto& chunk : page.chunks) {
        all.text += chunk.data();
        all.chunks.push_back(chunk);
      }
      if (!state.ok() || *state == LogCursor::State::kDry) return all;
    }
  }
  // Writes ten lines "r: text" of ranks 0 to 2 in turns, one second apart.
  void write_ten() {
    auto sink = open();
    sink->begin_attempt(0);
    for (int i = 0; i < 10; ++i) {
      sink->frame(0, static_cast<std::uint64_t>(i) + 1);
      const std::string line = fmt::format("{}\n", i);
      EXPECT_TRUE(sink->write(i % 3, i % 2 == 0 ? OutputStream::kStdout : OutputStream::kStderr, line, 0).ok());
      clock_.advance(std::chrono::seconds(1));
    }
  }
};

TEST_F(LogCursorTest, AChunkSaysWhatTheRecordSaid) {
  auto sink = open();
  sink->frame(0, 1);
  clock_.advance(std::chrono::microseconds(1500));
  EXPECT_TRUE(sink->write(2, OutputStream::kStderr, "half", proto::kPartial | proto::kContinuation).ok());
  EXPECT_TRUE(sink->end_rank(2).ok());
  EXPECT_TRUE(sink->end_agent(0).ok());
  const Read all = read({});
  ASSERT_EQ(all.chunks.size(), 2U);
  const auto& chunk = all.chunks[0];
  EXPECT_EQ(chunk.rank(), 2);
  EXPECT_EQ(chunk.stream(), v1::OUTPUT_STREAM_KIND_STDERR);
  EXPECT_EQ(chunk.data(), "half");
  EXPECT_TRUE(chunk.partial() && chunk.continuation());
  EXPECT_EQ(chunk.time().nanos(), 1'500'000);
  EXPECT_EQ(chunk.next_position(), journal_record_size(4));
  EXPECT_TRUE(all.chunks[1].rank_ended());
  EXPECT_EQ(all.chunks[1].rank(), 2);
}

TEST_F(LogCursorTest, NothingIsThereYet) {
  const Read all = read({});
  EXPECT_TRUE(all.status.ok()) << all.status;
  EXPECT_TRUE(all.chunks.empty());
}

TEST_F(LogCursorTest, OnlyTheChosenRanks) {
  write_ten();
  EXPECT_EQ(read({}).text, "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
  EXPECT_EQ(read({.ranks = {1}}).text, "1\n4\n7\n");
  EXPECT_EQ(read({.ranks = {0, 2}}).text, "0\n2\n3\n5\n6\n8\n9\n");
  EXPECT_EQ(read({.ranks = {5}}).text, "");
}

TEST_F(LogCursorTest, TheLastLines) {
  write_ten();
  EXPECT_EQ(read({.tail_lines = 3}).text, "7\n8\n9\n");
  EXPECT_EQ(read({.tail_lines = 10}).text, read({}).text);
  EXPECT_EQ(read({.tail_lines = 1000}).text, read({}).text);
  EXPECT_EQ(read({.ranks = {1}, .tail_lines = 2}).text, "4\n7\n");
}

TEST_F(LogCursorTest, TheLastLinesOfARecordAndOfAnOpenLine) {
  auto sink = open();
  EXPECT_TRUE(sink->write(0, OutputStream::kStdout, "a\nb\nc\n", 0).ok());
  EXPECT_TRUE(sink->write(0, OutputStream::kStdout, "d\ne", proto::kPartial).ok());
  EXPECT_TRUE(sink->write(1, OutputStream::kStdout, "f\n", 0).ok());
  EXPECT_EQ(read({.tail_lines = 1}).text, "f\n");
  EXPECT_EQ(read({.tail_lines = 2}).text, "ef\n");
  EXPECT_EQ(read({.tail_lines = 3}).text, "d\nef\n");
  EXPECT_EQ(read({.tail_lines = 5}).text, "b\nc\nd\nef\n");
  EXPECT_TRUE(sink->write(0, OutputStream::kStdout, " and on\n", proto::kContinuation).ok());
  // A line in two pieces counts as one.
  EXPECT_EQ(read({.ranks = {0}, .tail_lines = 1}).text, " and on\n");
  EXPECT_EQ(read({.ranks = {0}, .tail_lines = 2}).text, "d\ne and on\n");
}

TEST_F(LogCursorTest, NothingBeforeATime) {
  const base::WallTime begin = clock_.wall();
  write_ten();
  EXPECT_EQ(read({.since = begin + std::chrono::seconds(7)}).text, "7\n8\n9\n");
  EXPECT_EQ(read({.since = begin + std::chrono::milliseconds(7500)}).text, "8\n9\n");
  EXPECT_EQ(read({.since = begin}).text, read({}).text);
  EXPECT_EQ(read({.since = begin + std::chrono::hours(1)}).text, "");
  EXPECT_EQ(read({.since = begin + std::chrono::seconds(2), .tail_lines = 3}).text, "7\n8\n9\n");
  EXPECT_EQ(read({.since = begin + std::chrono::seconds(8), .tail_lines = 5}).text, "8\n9\n");
}

TEST_F(LogCursorTest, GoesOnWhereAnEarlierOneHasStopped) {
  write_ten();
  const Read all = read({});
  for (std::size_t i = 0; i < all.chunks.size(); ++i) {
    const Read rest = read({.position = all.chunks[i].next_position(), .tail_lines = 1});
    EXPECT_EQ(rest.text, all.text.substr(2 * (i + 1)));
  }
}

TEST_F(LogCursorTest, APositionThatIsNoneIsRefused) {
  write_ten();
  const Read inside = read({.position = 3});
  EXPECT_EQ(inside.status.code(), base::Code::kInvalidArgument);
  EXPECT_NE(inside.status.message().find("position 3 "), std::string::npos) << inside.status;
  EXPECT_EQ(read({.position = content().size() + 1}).status.code(), base::Code::kOutOfRange);
  EXPECT_TRUE(read({.position = content().size()}).status.ok());
}

TEST_F(LogCursorTest, DamageCostsOnlyWhatComesAfterIt) {
  write_ten();
  std::string file = content();
  const std::size_t at = 44 + 4 * 46 + 5;  // in the header of the line "4"
  file[at] = '?';
  write_file(file);
  const Read all = read({});
  EXPECT_EQ(all.text, "0\n1\n2\n3\n");
  EXPECT_EQ(all.status.code(), base::Code::kDataLoss);
  EXPECT_NE(all.status.message().find(fmt::format("{} is damaged at byte {}", path_, at - 5)), std::string::npos)
      << all.status;
  EXPECT_EQ(read({.tail_lines = 3}).text, "7\n8\n9\n");
}

// The file of a killed launcherd may end anywhere, and nobody continued the job.
TEST_F(LogCursorTest, OfAFileCutAnywhereWholeRecordsAreRead) {
  write_ten();
  const std::string file = content();
  const std::string all = "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n";
  for (std::size_t size = 0; size <= file.size(); ++size) {
    write_file(std::string_view(file).substr(0, size));
    const std::size_t lines = size < 44 ? 0 : (size - 44) / 46;
    const Read whole = read({});
    ASSERT_TRUE(whole.status.ok()) << size << ": " << whole.status;
    ASSERT_EQ(whole.text, all.substr(0, 2 * lines)) << size;
    const Read last = read({.tail_lines = 2});
    ASSERT_TRUE(last.status.ok()) << size << ": " << last.status;
    ASSERT_EQ(last.text, whole.text.substr(whole.text.size() - std::min<std::size_t>(4, whole.text.size()))) << size;
  }
}

TEST_F(LogCursorTest, ReadsNoFurtherThanItMay) {
  write_ten();
  EXPECT_EQ(read({}, 44 + 3 * 46).text, "0\n1\n2\n");
  EXPECT_EQ(read({.tail_lines = 1}, 44 + 3 * 46).text, "2\n");
}

TEST_F(LogCursorTest, APageIsBounded) {
  auto sink = open();
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(sink->write(0, OutputStream::kStdout, std::string(10'000, 'x'), 0).ok());
  LogCursor cursor({.path = path_});
  std::size_t bytes = 0;
  for (;;) {
    LogPage page;
    const auto state = cursor.read(std::nullopt, &page);
    ASSERT_TRUE(state.ok()) << state.status();
    if (*state == LogCursor::State::kDry) break;
    std::size_t now = 0;
    for (const auto& chunk : page.chunks) now += chunk.data().size();
    EXPECT_LT(now, kLogPage + 10'000);
    bytes += now;
  }
  EXPECT_EQ(bytes, 1'000'000U);
}

TEST_F(LogCursorTest, SaysWhatIsMissing) {
  const auto payload = encode_lost_bytes(4711);
  JournalHeader header;
  header.kind = JournalKind::kLost;
  write_file(testing_journal::data_record(0, "x\n") + encode_journal_record(header, {payload.data(), payload.size()}));
  const Read all = read({.ranks = {1}});  // every reader gets the loss, because any rank may be affected
  ASSERT_EQ(all.chunks.size(), 1U);
  EXPECT_EQ(all.chunks[0].lost_bytes(), 4711U);
  EXPECT_EQ(all.chunks[0].lost_host(), "");
}

TEST_F(LogCursorTest, SaysWhoseOutputIsGone) {
  JournalHeader header;
  header.kind = JournalKind::kGone;
  write_file(encode_journal_record(header, encode_gone(4711, "n1")) + testing_journal::data_record(1, "x\n"));
  const Read all = read({.ranks = {1}});
  ASSERT_EQ(all.chunks.size(), 2U);
  EXPECT_EQ(all.chunks[0].lost_bytes(), 4711U);
  EXPECT_EQ(all.chunks[0].lost_host(), "n1");
  EXPECT_EQ(all.chunks[1].data(), "x\n");
}

}  // namespace
}  // namespace muster::launcherd::log_cursor_test
