#include "launcherd/run/exec_calls.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "proto/input_window.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::exec_calls_test {
namespace {

constexpr int kAgent = 2;
constexpr int kNumber = 9;  // the rank is 3

class ExecCallsTest : public ::testing::Test {
 protected:
  std::uint64_t begin(const v1::ExecRequest& first = {}) {
    auto controls =
        calls_.begin({.agent = kAgent, .host = "n2", .number = kNumber, .rank = 3}, first,
                     {.send = [this](v1::ExecEvent event) { events_.push_back(std::move(event)); },
                      .done = [this](const base::Status& status) { ends_.push_back(status); },
                      .when_written = [this](base::Loop::Task task) { written_.push_back(std::move(task)); }});
    EXPECT_TRUE(controls.ok());
    controls_ = *std::move(controls);
    for (const auto& [agent, message] : sent_) {
      if (message.has_exec_order()) id_ = message.exec_order().id();
    }
    return id_;
  }
  void output(std::size_t bytes) {
    v1::ExecOutput message;
    message.set_id(id_);
    message.set_data(std::string(bytes, 'x'));
    calls_.output(kAgent, message);
  }
  void ended(int wait_status, const std::string& why = "") {
    v1::ExecEnded message;
    message.set_id(id_);
    message.set_wait_status(wait_status);
    message.set_message(why);
    calls_.ended(kAgent, message);
  }
  const v1::ExecEnd& end() const { return events_.back().ended(); }

  base::Loop loop_;
  std::vector<std::pair<int, v1::LauncherMessage>> sent_;
  std::vector<v1::ExecEvent> events_;
  std::vector<base::Status> ends_;
  std::vector<base::Loop::Task> written_;
  std::uint64_t id_ = 0;
  ExecControls controls_;
  ExecCalls calls_{loop_,
                   [this](int agent, v1::LauncherMessage message) { sent_.emplace_back(agent, std::move(message)); }};
};

TEST_F(ExecCallsTest, SendsTheOrderToTheAgentOfTheRank) {
  v1::ExecRequest first;
  first.add_command("top");
  first.set_terminal(true);
  first.set_term("xterm");
  first.mutable_window_size()->set_rows(40);
  begin(first);
  ASSERT_EQ(sent_.size(), 1U);
  EXPECT_EQ(sent_[0].first, kAgent);
  const v1::ExecOrder& order = sent_[0].second.exec_order();
  EXPECT_EQ(order.rank(), kNumber);
  EXPECT_EQ(order.command(0), "top");
  EXPECT_TRUE(order.terminal());
  EXPECT_EQ(order.term(), "xterm");
  EXPECT_EQ(order.window_size().rows(), 40);
}

TEST_F(ExecCallsTest, ReportsStartAndEnd) {
  v1::ExecStarted started;
  started.set_id(begin());
  started.set_pid(77);
  calls_.started(kAgent, started);
  ASSERT_EQ(events_.size(), 1U);
  EXPECT_EQ(events_[0].begun().rank(), 3);
  EXPECT_EQ(events_[0].begun().host(), "n2");
  EXPECT_EQ(events_[0].begun().pid(), 77);
  ended(5 << 8);
  EXPECT_EQ(end().exit_code(), 5);
  EXPECT_EQ(end().signal(), 0);
  ASSERT_EQ(ends_.size(), 1U);
  EXPECT_TRUE(ends_[0].ok());
  ended(0);
  EXPECT_EQ(ends_.size(), 1U);
}

TEST_F(ExecCallsTest, AnEndBySignalHasTheCodeOfShells) {
  begin();
  ended(SIGTERM, "rank 3 ended (exit code 0) while the command ran");
  EXPECT_EQ(end().exit_code(), 128 + SIGTERM);
  EXPECT_EQ(end().signal(), SIGTERM);
  EXPECT_EQ(end().message(), "rank 3 ended (exit code 0) while the command ran");
}

TEST_F(ExecCallsTest, NamesTheHostIfACommandDidNotStart) {
  v1::ExecEnded message;
  message.set_id(begin());
  message.set_not_started(true);
  message.set_exit_code(127);
  message.set_message("cannot run 'x': no such file");
  calls_.ended(kAgent, message);
  EXPECT_EQ(end().exit_code(), 127);
  EXPECT_EQ(end().message(), "n2: cannot run 'x': no such file");
}

TEST_F(ExecCallsTest, ConfirmsOutputOnceTheCallerHasIt) {
  begin();
  output(100);
  output(50);
  EXPECT_EQ(sent_.size(), 1U);
  ASSERT_EQ(written_.size(), 1U);
  written_[0]();
  ASSERT_EQ(sent_.size(), 2U);
  EXPECT_EQ(sent_[1].second.exec_control().output_taken(), 150U);
  output(1);
  EXPECT_EQ(written_.size(), 2U);
}

TEST_F(ExecCallsTest, EndsACallWhoseAgentSendsTooMuch) {
  begin();
  output(proto::kExecWindow);
  EXPECT_TRUE(ends_.empty());
  output(1);
  ASSERT_EQ(ends_.size(), 1U);
  EXPECT_EQ(ends_[0].code(), base::Code::kInternal);
  EXPECT_TRUE(sent_.back().second.exec_control().end());
}

TEST_F(ExecCallsTest, EndsACallWhoseCallerSendsTooMuch) {
  begin();
  v1::ExecRequest request;
  request.set_input(std::string(proto::kInputWindow, 'x'));
  controls_.next(request);
  EXPECT_EQ(sent_.back().second.exec_input().data().size(), proto::kInputWindow);
  v1::ExecInputTaken taken;
  taken.set_id(id_);
  taken.set_bytes(10);
  calls_.input_taken(kAgent, taken);
  EXPECT_EQ(events_.back().input_taken(), 10U);
  request.set_input("0123456789");
  controls_.next(request);
  EXPECT_TRUE(ends_.empty());
  controls_.next(request);
  ASSERT_EQ(ends_.size(), 1U);
  EXPECT_EQ(ends_[0].code(), base::Code::kResourceExhausted);
  EXPECT_TRUE(sent_.back().second.exec_control().end());
}

TEST_F(ExecCallsTest, AClosedPipeGivesAllRoomBack) {
  begin();
  v1::ExecRequest request;
  request.set_input("0123456789");
  controls_.next(request);
  v1::ExecInputTaken taken;
  taken.set_id(id_);
  taken.set_closed(true);
  calls_.input_taken(kAgent, taken);
  EXPECT_EQ(events_.back().input_taken(), 10U);
}

TEST_F(ExecCallsTest, ConfirmsInputAtOnceIfThePipeIsClosed) {
  begin();
  v1::ExecInputTaken taken;
  taken.set_id(id_);
  taken.set_closed(true);
  calls_.input_taken(kAgent, taken);
  EXPECT_TRUE(events_.empty());
  const std::size_t sent = sent_.size();
  v1::ExecRequest request;
  request.set_input(std::string(proto::kInputWindow, 'x'));
  for (std::size_t turn = 1; turn <= 3; ++turn) {
    controls_.next(request);
    ASSERT_EQ(events_.size(), turn);
    EXPECT_EQ(events_.back().input_taken(), proto::kInputWindow);
  }
  EXPECT_EQ(sent_.size(), sent);
  EXPECT_TRUE(ends_.empty());
}

TEST_F(ExecCallsTest, TheEndOfTheJobEndsTheCommands) {
  begin();
  calls_.close();
  EXPECT_EQ(end().message(), "the job ended while the command ran");
  EXPECT_TRUE(sent_.back().second.exec_control().end());
}

TEST_F(ExecCallsTest, SaysThatOutputIsMissingIfTheJobEndsBeforeItArrives) {
  begin();
  output(100);
  calls_.rank_over(kNumber, "exit code 0");
  calls_.close();
  EXPECT_EQ(end().message(), "the job ended before all output of the command had arrived");
}

TEST_F(ExecCallsTest, PassesSignalsAndSizesOn) {
  begin();
  v1::ExecRequest request;
  request.set_signal(SIGINT);
  request.mutable_window_size()->set_rows(9);
  controls_.next(request);
  EXPECT_EQ(sent_.back().second.exec_control().signal(), SIGINT);
  EXPECT_EQ(sent_.back().second.exec_control().window_size().rows(), 9);
}

TEST_F(ExecCallsTest, TellsTheAgentThatTheCallerHasLeft) {
  begin();
  controls_.gone();
  EXPECT_TRUE(sent_.back().second.exec_control().end());
  ended(0);
  controls_.gone();
  EXPECT_TRUE(ends_.empty());
  EXPECT_EQ(sent_.size(), 2U);
}

TEST_F(ExecCallsTest, SaysThatTheRankHasEndedIfTheJobEndsWithIt) {
  begin();
  calls_.rank_over(kNumber, "exit code 0");
  EXPECT_TRUE(ends_.empty());
  calls_.close();
  EXPECT_EQ(end().message(), "rank 3 ended (exit code 0) while the command ran");
  EXPECT_EQ(end().exit_code(), 128 + SIGKILL);
  ASSERT_EQ(ends_.size(), 1U);
  EXPECT_TRUE(ends_[0].ok());
}

TEST_F(ExecCallsTest, SaysThatTheHostWasLost) {
  begin();
  calls_.lost(kAgent + 1);
  EXPECT_TRUE(ends_.empty());
  calls_.lost(kAgent);
  EXPECT_EQ(end().message(), "n2 was lost while the command ran");
}

TEST_F(ExecCallsTest, IgnoresOtherAgents) {
  v1::ExecEnded message;
  message.set_id(begin());
  calls_.ended(kAgent + 1, message);
  EXPECT_TRUE(ends_.empty());
  EXPECT_TRUE(events_.empty());
}

TEST_F(ExecCallsTest, RefusesTooManyCommands) {
  for (std::size_t i = 0; i < ExecCalls::kMost; ++i) begin();
  const auto refused = calls_.begin({}, {}, {});
  EXPECT_EQ(refused.status().code(), base::Code::kResourceExhausted);
}

}  // namespace
}  // namespace muster::launcherd::exec_calls_test
