#include "launcherd/doctor/probe_link.h"

#include <sys/socket.h>

#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "proto/frame.h"

namespace muster::launcherd::probe_link_test {
namespace {

using namespace std::chrono_literals;

class ProbeLinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pair = base::make_socketpair(SOCK_STREAM);
    ASSERT_TRUE(pair.ok());
    agent_ = std::move(pair->second);
    link_ = std::make_unique<ProbeLink>(loop_, std::move(pair->first));
    give_up_ = loop_.after(20s, [this] { loop_.stop(); });
  }

  void say(std::string_view bytes) {
    ASSERT_TRUE(base::write_all_blocking(agent_.get(), bytes.data(), bytes.size()).ok());
  }

  static std::string reading(std::int64_t wall_ns) {
    v1::ProbeAnswer answer;
    answer.mutable_clock()->set_wall_ns(wall_ns);
    return *proto::frame_message(answer);
  }

  void ask(base::Duration timeout = 20s) {
    v1::ProbeCommand command;
    command.mutable_read_clock();
    ask(command, timeout);
  }
  void ask_with_variable_of(std::size_t bytes) {
    v1::ProbeCommand command;
    v1::EnvVar& variable = *command.mutable_ask_facts()->add_environment();
    variable.set_name("LONG");
    variable.set_value(std::string(bytes, 'x'));
    ask(command, 20s);
  }
  void ask(const v1::ProbeCommand& command, base::Duration timeout) {
    link_->ask(command, timeout, [this](base::Result<v1::ProbeAnswer> answer) {
      answer_ = std::move(answer);
      loop_.stop();
    });
  }

  base::Loop loop_;
  base::Timer give_up_;
  base::UniqueFd agent_;
  std::unique_ptr<ProbeLink> link_;
  std::optional<base::Result<v1::ProbeAnswer>> answer_;
};

TEST_F(ProbeLinkTest, CommandsAndAnswersInTurn) {
  for (const std::int64_t value : {7, 8}) {
    ask();
    v1::ProbeCommand asked;
    ASSERT_TRUE(*proto::read_message_blocking(agent_.get(), asked));
    EXPECT_TRUE(asked.has_read_clock());
    say(reading(value));
    loop_.run();
    ASSERT_TRUE(answer_ && answer_->ok());
    EXPECT_EQ((*answer_)->clock().wall_ns(), value);
  }
}

TEST_F(ProbeLinkTest, AnAnswerInPieces) {
  ask();
  const std::string frame = reading(1'000'000);
  loop_.post([&] { say(frame.substr(0, 3)); });
  loop_.post([&] { say(frame.substr(3, 2)); });
  loop_.post([&] { say(frame.substr(5)); });
  loop_.run();
  ASSERT_TRUE(answer_ && answer_->ok());
  EXPECT_EQ((*answer_)->clock().wall_ns(), 1'000'000);
}

// The command holds the environment of its sender, which may exceed a socket's buffer.
TEST_F(ProbeLinkTest, ALongCommandIsSentInPieces) {
  ask_with_variable_of(900'000);
  v1::ProbeCommand asked;
  std::thread agent([&] {
    EXPECT_TRUE(*proto::read_message_blocking(agent_.get(), asked));
    say(reading(5));
  });
  loop_.run();
  agent.join();
  ASSERT_TRUE(answer_ && answer_->ok());
  EXPECT_EQ(asked.ask_facts().environment(0).value().size(), 900'000U);
}

TEST_F(ProbeLinkTest, ACommandThatIsTooLongIsAnError) {
  ask_with_variable_of(2 << 20);
  loop_.run();
  ASSERT_TRUE(answer_ && !answer_->ok());
  EXPECT_EQ(answer_->status().code(), base::Code::kResourceExhausted);
  EXPECT_NE(answer_->status().message().find("--env-none"), std::string::npos);
  ask();  // the link still works
  v1::ProbeCommand asked;
  ASSERT_TRUE(*proto::read_message_blocking(agent_.get(), asked));
  say(reading(5));
  loop_.run();
  EXPECT_TRUE(answer_->ok());
}

TEST_F(ProbeLinkTest, TheEndOfTheAgent) {
  ask();
  agent_.reset();
  loop_.run();
  ASSERT_TRUE(answer_ && !answer_->ok());
  EXPECT_EQ(answer_->status().code(), base::Code::kUnavailable);
}

TEST_F(ProbeLinkTest, TheEndOfTheAgentBetweenQuestions) {
  loop_.post([this] {
    agent_.reset();
    loop_.post([this] { ask(1s); });
  });
  loop_.run();
  ASSERT_TRUE(answer_ && !answer_->ok());
}

TEST_F(ProbeLinkTest, NoAnswerInTime) {
  ask(20ms);
  loop_.run();
  ASSERT_TRUE(answer_ && !answer_->ok());
  EXPECT_EQ(answer_->status().code(), base::Code::kDeadlineExceeded);
}

TEST_F(ProbeLinkTest, Junk) {
  for (const std::string& junk : {std::string("Welcome to n1!"), std::string("\x03\0\0\0\xff\xff\xff", 7)}) {
    SetUp();
    answer_.reset();
    ask();
    say(junk);
    loop_.run();
    ASSERT_TRUE(answer_ && !answer_->ok()) << junk;
    EXPECT_EQ(answer_->status().code(), base::Code::kInvalidArgument);
  }
}

TEST_F(ProbeLinkTest, MayBeDestroyedByTheAnswer) {
  v1::ProbeCommand command;
  command.mutable_read_clock();
  link_->ask(command, 20s, [this](base::Result<v1::ProbeAnswer> answer) {
    answer_ = std::move(answer);
    link_.reset();
    loop_.stop();
  });
  say(reading(3));
  loop_.run();
  ASSERT_TRUE(answer_ && answer_->ok());
}

}  // namespace
}  // namespace muster::launcherd::probe_link_test
