#include "launcherd/output/fold_sink.h"

#include <signal.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/net.h"

namespace muster::launcherd::fold_sink_test {
namespace {

using proto::OutputStream;

// A console that writes to a pipe.
class FoldSinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    signal(SIGPIPE, SIG_IGN);
    auto pipe = base::make_pipe();
    ASSERT_TRUE(pipe.ok());
    pipe_ = std::move(*pipe);
    terminals_ = std::make_unique<Terminals>(pipe_.second.get(), pipe_.second.get());
  }
  void open(const FoldSink::Config& config, const model::LabelFormat& label = {}) {
    console_ = std::make_unique<ConsoleSink>(terminals_->out(), terminals_->err(), &clock_,
                                             ConsoleSinkOptions{.size = 3, .label = label});
    auto sink = FoldSink::create(console_.get(), &clock_, config);
    ASSERT_TRUE(sink.ok());
    sink_ = std::move(*sink);
    sink_->set_ranks({0, 1, 2});
  }
  // Returns what the pipe holds; blocks until there is something.
  std::string read_some() const {
    std::string text(4096, '\0');
    const ssize_t size = ::read(pipe_.first.get(), text.data(), text.size());
    text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return text;
  }
  void write(int rank, std::string_view text, OutputStream stream = OutputStream::kStdout) {
    EXPECT_TRUE(sink_->write(rank, stream, text, 0).ok());
    EXPECT_TRUE(sink_->flush().ok());
  }

  base::SystemClock clock_;
  base::FdPair pipe_;
  std::unique_ptr<Terminals> terminals_;
  std::unique_ptr<ConsoleSink> console_;
  std::unique_ptr<FoldSink> sink_;
};

TEST_F(FoldSinkTest, LabelsALineOfAllRanks) {
  open({});
  for (int rank = 0; rank < 3; ++rank) write(rank, "a\nb\n");
  EXPECT_EQ(read_some(), "[0-2]<stdout>:a\n[0-2]<stdout>:b\n");
}

TEST_F(FoldSinkTest, ItsThreadShowsALineAfterTheWindow) {
  open({.options = {.window = std::chrono::milliseconds(50)}});
  write(0, "a\n");
  write(2, "a\n");
  EXPECT_EQ(read_some(), "[0,2]<stdout>:a\n");
}

TEST_F(FoldSinkTest, LabelsEachLineOfATracebackByTheUsersFormat) {
  auto label = model::LabelFormat::parse("{rank}|");
  ASSERT_TRUE(label.ok());
  open({}, *label);
  for (int rank = 0; rank < 3; ++rank) {
    write(rank, "Traceback (most recent call last):\n  File\nE: no\n", OutputStream::kStderr);
    EXPECT_TRUE(sink_->end_rank(rank).ok());
  }
  EXPECT_TRUE(sink_->flush().ok());
  EXPECT_EQ(read_some(), "0-2|Traceback (most recent call last):\n0-2|  File\n0-2|E: no\n");
}

TEST_F(FoldSinkTest, PassesStreamsAndRanksThatAreNotFolded) {
  open({.folds = {true, false}, .raw_rank = 1});
  write(0, "a\n", OutputStream::kStderr);
  EXPECT_EQ(read_some(), "[0]<stderr>:a\n");
  write(1, "raw\n");
  EXPECT_EQ(read_some(), "[1]<stdout>:raw\n");
  write(2, "held\n");
  EXPECT_TRUE(sink_->finish().ok());
  EXPECT_EQ(read_some(), "[2]<stdout>:held\n");
}

TEST_F(FoldSinkTest, ClosesTheUnfinishedLineOfAnotherRankFirst) {
  open({});
  write(0, "Name: ");
  write(1, "a\n");
  write(2, "a\n");
  EXPECT_TRUE(sink_->finish_blocking(base::monotonic_now() + std::chrono::seconds(30)));
  EXPECT_EQ(read_some(), "[0]<stdout>:Name: \n[1-2]<stdout>:a\n");
}

TEST_F(FoldSinkTest, ReportsOnceThatTheConsoleHasNoReader) {
  open({});
  pipe_.first.reset();
  EXPECT_TRUE(sink_->write(0, OutputStream::kStdout, "a\n", 0).ok());
  EXPECT_TRUE(sink_->finish_blocking(base::monotonic_now() + std::chrono::seconds(30)));
  EXPECT_EQ(sink_->flush().code(), base::Code::kCancelled);
  EXPECT_TRUE(sink_->flush().ok());
}

TEST_F(FoldSinkTest, FinishDoesNotWaitForAStuckTerminal) {
  open({});
  const std::string line = fmt::format("{}\n", std::string(1000, 'x'));
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(sink_->write(0, OutputStream::kStdout, line, 0).ok());  // more than a pipe
  EXPECT_FALSE(sink_->finish_blocking(base::monotonic_now() + std::chrono::milliseconds(100)));
  terminals_->cancel();
  sink_.reset();  // ends, because the terminal was cancelled
}

}  // namespace
}  // namespace muster::launcherd::fold_sink_test
