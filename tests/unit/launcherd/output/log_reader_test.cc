#include "launcherd/output/log_reader.h"

#include <algorithm>

#include "base/thread.h"
#include "tests/unit/launcherd/output/journal_rig.h"

namespace muster::launcherd::log_reader_test {
namespace {

using proto::OutputStream;

class LogReaderTest : public testing_journal::JournalTest {
 protected:
  void SetUp() override {
    JournalTest::SetUp();
    auto reader = LogReader::start(loop_);
    ASSERT_TRUE(reader.ok()) << reader.status();
    reader_ = std::move(reader).value();
    deadline_ = loop_.after(std::chrono::seconds(40), [this] {
      ADD_FAILURE() << "nothing more came";
      loop_.stop();
    });
  }
  void TearDown() override {
    reader_.reset();
    JournalTest::TearDown();
  }
  JournalSink::OnFlush tell() {
    return [this](std::uint64_t readable) { reader_->journal_changed(path_, readable); };
  }

  // Collects everything that one cursor gets, until the end or an error.
  struct Follower {
    std::uint64_t cursor = 0;
    std::string text;
    std::uint64_t position = 0;
    bool is_over = false;
    base::Status status;
  };
  void follow(Follower* follower, LogQuery query) {
    query.path = path_;
    follower->cursor = reader_->open(std::move(query));
    ask(follower);
  }
  void ask(Follower* follower) {
    reader_->next(follower->cursor, [this, follower](base::Result<LogPage> page) {
      follower->status = page.status();
      follower->is_over = !page.ok() || page->is_end;
      if (page.ok()) {
        for (const auto& chunk : page->chunks) follower->text += chunk.data();
        follower->position = page->next_position;
      }
      if (!follower->is_over) ask(follower);
      if (on_page_) on_page_();
    });
  }
  void run_until(std::function<bool()> condition) {
    on_page_ = [this, condition] {
      if (condition()) loop_.stop();
    };
    loop_.run();
    on_page_ = {};
  }

  base::Loop loop_;
  base::Timer deadline_;
  std::unique_ptr<LogReader> reader_;
  std::function<void()> on_page_;
};

TEST_F(LogReaderTest, ReadsWhatIsThereAndEnds) {
  {
    auto sink = open();
    for (int i = 0; i < 1000; ++i)
      EXPECT_TRUE(sink->write(0, OutputStream::kStdout, std::string(999, 'x') + "\n", 0).ok());
  }
  Follower all;
  follow(&all, {});
  run_until([&] { return all.is_over; });
  EXPECT_TRUE(all.status.ok()) << all.status;
  EXPECT_EQ(all.text.size(), 1'000'000U);
  EXPECT_EQ(all.position, content().size());
  reader_->close(all.cursor);
}

TEST_F(LogReaderTest, TwoFollowWhileAnotherThreadWrites) {
  constexpr int kLines = 20'000;
  Follower all;
  Follower one;
  follow(&all, {.follow = true});  // before the file exists
  follow(&one, {.ranks = {1}, .follow = true});
  auto writer = base::start_thread([this] {
    auto sink = open(tell());
    for (int i = 0; i < kLines; ++i) {
      sink->frame(0, static_cast<std::uint64_t>(i) + 1);
      EXPECT_TRUE(sink->write(i % 2, OutputStream::kStdout, fmt::format("{}\n", i), 0).ok());
      if (i % 7 != 0) continue;
      EXPECT_TRUE(sink->flush().ok());
    }
    sink.reset();
    reader_->journal_ended(path_);
  });
  ASSERT_TRUE(writer.ok());
  run_until([&] { return all.is_over && one.is_over; });
  writer->join();
  std::string expected;
  std::string odd;
  for (int i = 0; i < kLines; ++i) {
    expected += fmt::format("{}\n", i);
    if (i % 2 == 1) odd += fmt::format("{}\n", i);
  }
  EXPECT_TRUE(all.status.ok() && one.status.ok()) << all.status << one.status;
  EXPECT_TRUE(all.text == expected);
  EXPECT_TRUE(one.text == odd);
}

TEST_F(LogReaderTest, AFollowerGoesOnFromWhereItWasCut) {
  auto sink = open(tell());
  Follower first;
  follow(&first, {.follow = true});
  EXPECT_TRUE(sink->write(0, OutputStream::kStdout, "one\n", 0).ok());
  EXPECT_TRUE(sink->flush().ok());
  run_until([&] { return first.text == "one\n"; });
  reader_->close(first.cursor);  // its next() waits, and never gets an answer
  EXPECT_TRUE(sink->write(0, OutputStream::kStdout, "two\n", 0).ok());
  sink.reset();
  Follower second;
  follow(&second, {.position = first.position, .follow = true});
  reader_->journal_ended(path_);
  run_until([&] { return second.is_over; });
  EXPECT_EQ(second.text, "two\n");
  EXPECT_EQ(first.text, "one\n");
}

TEST_F(LogReaderTest, TheTailIsFollowed) {
  auto sink = open(tell());
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(sink->write(0, OutputStream::kStdout, fmt::format("{}\n", i), 0).ok());
  EXPECT_TRUE(sink->flush().ok());
  Follower last;
  follow(&last, {.tail_lines = 2, .follow = true});
  run_until([&] { return last.text == "8\n9\n"; });
  EXPECT_TRUE(sink->write(0, OutputStream::kStdout, "10\n", 0).ok());
  EXPECT_TRUE(sink->flush().ok());
  run_until([&] { return last.text == "8\n9\n10\n"; });
  EXPECT_FALSE(last.is_over);
}

TEST_F(LogReaderTest, AJobThatNeverWroteEndsItsFollowers) {
  Follower none;
  follow(&none, {.follow = true});
  reader_->journal_ended(path_);
  run_until([&] { return none.is_over; });
  EXPECT_TRUE(none.status.ok()) << none.status;
  EXPECT_EQ(none.text, "");
}

TEST_F(LogReaderTest, DamageIsToldBehindWhatIsWhole) {
  write_file(testing_journal::data_record(0, "whole\n") + std::string(60, '?'));
  Follower all;
  follow(&all, {});
  run_until([&] { return all.is_over; });
  EXPECT_EQ(all.text, "whole\n");
  EXPECT_EQ(all.status.code(), base::Code::kDataLoss);
}

TEST_F(LogReaderTest, ManyReadersTakeTurns) {
  {
    auto sink = open();
    for (int i = 0; i < 100; ++i)
      EXPECT_TRUE(sink->write(i % 2, OutputStream::kStdout, std::string(100'000, 'x'), 0).ok());
  }
  std::vector<Follower> all(50);
  std::size_t over = 0;
  for (std::size_t i = 0; i < all.size(); ++i) follow(&all[i], {.ranks = {static_cast<int>(i % 3)}});
  run_until([&] {
    over = static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [](const Follower& f) { return f.is_over; }));
    return over == all.size();
  });
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].text.size(), i % 3 == 2 ? 0U : 5'000'000U) << i;
}

}  // namespace
}  // namespace muster::launcherd::log_reader_test
