#include "agent/io/command_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "proto/input_window.h"

namespace muster::agent::command_output_test {
namespace {

using namespace std::chrono_literals;

class CommandOutputTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto out = base::make_pipe();
    auto err = base::make_pipe();
    ASSERT_TRUE(out.ok() && err.ok());
    for (base::UniqueFd* end : {&out->first, &err->first, &out->second}) {
      ASSERT_TRUE(base::set_nonblocking(end->get(), true).ok());
    }
    out_ = std::move(out->second);
    err_ = std::move(err->second);
    output_ = std::make_unique<CommandOutput>(
        loop_, std::move(out->first), std::move(err->first),
        CommandOutput::Events{
            .on_data = [this](const std::string& data, bool is_stderr) { (is_stderr ? got_err_ : got_out_) += data; },
            .on_end = [this] { ++ends_; }});
  }

  // Writes until the pipe is full, and returns the number of bytes.
  std::size_t fill() {
    const std::string bytes(4096, 'x');
    std::size_t all = 0;
    for (ssize_t n = 0; n >= 0; n = ::write(out_.get(), bytes.data(), bytes.size())) all += static_cast<std::size_t>(n);
    return all;
  }
  void write(const base::UniqueFd& to, const std::string& text) {
    ASSERT_EQ(::write(to.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  bool run_until(const std::function<bool()>& condition) {
    const base::MonotonicTime deadline = base::monotonic_now() + 10s;
    while (!condition() && base::monotonic_now() < deadline) {
      const base::Timer pause = loop_.after(1ms, [this] { loop_.stop(); });
      loop_.run();
    }
    return condition();
  }

  base::Loop loop_;
  base::UniqueFd out_;
  base::UniqueFd err_;
  std::string got_out_;
  std::string got_err_;
  int ends_ = 0;
  std::unique_ptr<CommandOutput> output_;
};

TEST_F(CommandOutputTest, TellsTheStreamsApart) {
  write(out_, "one");
  write(err_, "two");
  EXPECT_TRUE(run_until([this] { return got_out_ == "one" && got_err_ == "two"; }));
  EXPECT_EQ(ends_, 0);
}

TEST_F(CommandOutputTest, ReadsNoMoreThanTheWindow) {
  std::size_t written = 0;
  ASSERT_TRUE(run_until([&] {
    written += fill();
    return got_out_.size() == proto::kExecWindow;
  }));
  written += fill();
  EXPECT_EQ(got_out_.size(), proto::kExecWindow);
  output_->taken(10);
  ASSERT_TRUE(run_until([&] { return got_out_.size() == proto::kExecWindow + 10; }));
  output_->taken(proto::kExecWindow * 4);  // more than is under way counts as all of it
  EXPECT_TRUE(run_until([&] { return got_out_.size() == written; }));
}

TEST_F(CommandOutputTest, EndsAfterTheLastBytes) {
  write(out_, "last");
  out_.reset();
  err_.reset();
  output_->finish();
  EXPECT_EQ(got_out_, "last");
  EXPECT_EQ(ends_, 1);
  output_->finish();
  EXPECT_EQ(ends_, 1);
}

TEST_F(CommandOutputTest, DoesNotWaitForOtherProcessesThatHoldThePipes) {
  write(out_, "last");
  output_->finish();
  EXPECT_EQ(got_out_, "last");
  EXPECT_EQ(ends_, 0);
  EXPECT_TRUE(run_until([this] { return ends_ == 1; }));
}

TEST_F(CommandOutputTest, DoesNotWaitForAProcessThatKeepsWriting) {
  output_->finish();
  EXPECT_TRUE(run_until([this] {
    if (ends_ == 1) return true;
    fill();
    output_->taken(1 + got_out_.size() % 7);  // a slow reader: the window is full most of the time
    return ends_ == 1;
  }));
}

TEST_F(CommandOutputTest, ReadsAllThatWasWrittenBeforeTheEnd) {
  std::size_t written = 0;
  ASSERT_TRUE(run_until([&] {
    written += fill();
    return got_out_.size() == proto::kExecWindow;
  }));
  written += fill();
  output_->finish();  // the test still holds the pipes
  const base::MonotonicTime later = base::monotonic_now() + 2 * CommandOutput::kDrain;
  ASSERT_TRUE(run_until([&] { return base::monotonic_now() > later; }));
  EXPECT_EQ(ends_, 0);
  while (got_out_.size() < written) output_->taken(4096);
  EXPECT_TRUE(run_until([this] { return ends_ == 1; }));
}

TEST_F(CommandOutputTest, WaitsForASlowReaderBeforeItEnds) {
  std::size_t written = 0;
  ASSERT_TRUE(run_until([&] {
    written += fill();
    return got_out_.size() == proto::kExecWindow;
  }));
  written += fill();
  out_.reset();
  err_.reset();
  output_->finish();
  const base::MonotonicTime later = base::monotonic_now() + 2 * CommandOutput::kDrain;
  ASSERT_TRUE(run_until([&] { return base::monotonic_now() > later; }));
  EXPECT_EQ(ends_, 0);
  while (got_out_.size() < written) output_->taken(proto::kExecWindow);
  EXPECT_TRUE(run_until([this] { return ends_ == 1; }));
}

}  // namespace
}  // namespace muster::agent::command_output_test
