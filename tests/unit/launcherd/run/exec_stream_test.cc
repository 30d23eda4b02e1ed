#include "launcherd/run/exec_stream.h"

#include <vector>

#include <gtest/gtest.h>

#include "proto/input_window.h"

namespace muster::launcherd::exec_stream_test {
namespace {

class ExecStreamTest : public ::testing::Test {
 protected:
  ExecStreamTest() {
    v1::ExecRequest first;
    first.add_command("ps");
    stream_ = *ExecStream::create(first, {.send = [](const v1::ExecEvent&) {},
                                          .done = [this](const base::Status& status) { ends_.push_back(status); },
                                          .when_written = [](const base::Loop::Task&) {}});
  }
  void begin() {
    const base::Status begun =
        stream_->begin([this](const v1::ExecRequest& first, ExecCaller caller) -> base::Result<ExecControls> {
          EXPECT_EQ(first.command(0), "ps");
          caller_ = std::move(caller);
          return ExecControls{.next = [this](const v1::ExecRequest& request) { passed_.push_back(request); },
                              .gone = [this] { ++left_; }};
        });
    EXPECT_TRUE(begun.ok());
  }
  void begin_is_ignored() {
    const base::Status begun = stream_->begin([](const v1::ExecRequest&, const ExecCaller&) {
      ADD_FAILURE() << "the command was started";
      return base::Result<ExecControls>(ExecControls());
    });
    EXPECT_TRUE(begun.ok());
  }
  void input(const std::string& bytes) {
    v1::ExecRequest request;
    request.set_input(bytes);
    stream_->next(request);
  }

  std::vector<base::Status> ends_;
  std::vector<v1::ExecRequest> passed_;
  int left_ = 0;
  ExecCaller caller_;
  std::shared_ptr<ExecStream> stream_;
};

TEST_F(ExecStreamTest, ChecksTheFirstRequest) {
  EXPECT_EQ(ExecStream::create({}, {}).status().message(), "command: the command is empty");
}

TEST_F(ExecStreamTest, KeepsRequestsUntilTheJobIsFound) {
  input("one");
  begin();
  ASSERT_EQ(passed_.size(), 1U);
  EXPECT_EQ(passed_[0].input(), "one");
  input("two");
  EXPECT_EQ(passed_.size(), 2U);
}

TEST_F(ExecStreamTest, KeepsNoMoreThanTheWindow) {
  input(std::string(proto::kInputWindow, 'x'));
  EXPECT_TRUE(ends_.empty());
  input("x");
  ASSERT_EQ(ends_.size(), 1U);
  EXPECT_EQ(ends_[0].code(), base::Code::kResourceExhausted);
  begin_is_ignored();
}

TEST_F(ExecStreamTest, EndsAtAWrongRequest) {
  begin();
  v1::ExecRequest wrong;
  wrong.set_signal(100);
  stream_->next(wrong);
  ASSERT_EQ(ends_.size(), 1U);
  EXPECT_EQ(ends_[0].code(), base::Code::kInvalidArgument);
  EXPECT_EQ(left_, 1);
  input("late");
  EXPECT_TRUE(passed_.empty());
}

TEST_F(ExecStreamTest, StartsNothingIfTheCallerHasLeft) {
  stream_->leave();
  begin_is_ignored();
  EXPECT_EQ(left_, 0);
  EXPECT_TRUE(ends_.empty());
}

TEST_F(ExecStreamTest, LeavesOnlyARunningCommand) {
  begin();
  caller_.done(base::ok_status());
  ASSERT_EQ(ends_.size(), 1U);
  stream_->leave();
  EXPECT_EQ(left_, 0);
  stream_->fail(base::internal_error("late"));
  EXPECT_EQ(ends_.size(), 1U);
}

TEST_F(ExecStreamTest, ReturnsTheErrorOfTheStart) {
  const base::Status begun =
      stream_->begin([](const v1::ExecRequest&, const ExecCaller&) -> base::Result<ExecControls> {
        return base::failed_precondition("rank 0 has ended");
      });
  EXPECT_EQ(begun.message(), "rank 0 has ended");
  stream_->fail(begun);
  EXPECT_EQ(ends_.size(), 1U);
}

}  // namespace
}  // namespace muster::launcherd::exec_stream_test
