#include "launcherd/agents/agent_channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

namespace muster::launcherd::agent_channel_test {
namespace {

TEST(LinkLine, ParsesBothForms) {
  EXPECT_FALSE(parse_link_line("MUSTER-LINK dial")->over_ssh);
  const auto ssh = parse_link_line("MUSTER-LINK ssh 10.0.0.1:99: no\x1b answer");
  ASSERT_TRUE(ssh.ok());
  EXPECT_TRUE(ssh->over_ssh);
  EXPECT_EQ(ssh->reason, "10.0.0.1:99: no\\x1b answer");
  EXPECT_FALSE(parse_link_line("").ok());
  EXPECT_FALSE(parse_link_line("MUSTER-LINK").ok());
  EXPECT_FALSE(parse_link_line("Welcome to n1!").ok());
}

struct Link : ::testing::Test {
  void SetUp() override {
    auto pair = base::make_socketpair(SOCK_STREAM);
    ASSERT_TRUE(pair.ok());
    agent = std::move(pair->second);
    own = pair->first.get();
    link = std::make_unique<AgentChannel>(
        loop, std::move(pair->first),
        AgentChannel::Events{.on_link =
                                 [this](const LinkChoice& choice, base::UniqueFd control, base::UniqueFd output) {
                                   chosen = choice;
                                   has_sockets = control.valid() && output.valid();
                                   loop.stop();
                                 },
                             .on_gone =
                                 [this](const base::Status& status) {
                                   gone = status;
                                   loop.stop();
                                 }});
    deadline = loop.after(std::chrono::seconds(10), [this] { loop.stop(); });
  }

  void say(std::string_view text) { ASSERT_TRUE(base::write_all_blocking(agent.get(), text.data(), text.size()).ok()); }

  base::Loop loop;
  base::Timer deadline;
  base::UniqueFd agent;
  int own = -1;  // the launcher's end
  std::unique_ptr<AgentChannel> link;
  std::optional<LinkChoice> chosen;
  bool has_sockets = false;
  base::Status gone;
};

TEST_F(Link, ReportsDialThenTheEndOfTheAgent) {
  say("MUSTER-LINK dial\n");
  loop.run();
  ASSERT_TRUE(chosen);
  EXPECT_FALSE(chosen->over_ssh);
  EXPECT_FALSE(has_sockets);
  EXPECT_NE(::fcntl(own, F_GETFD), -1);
  agent.reset();
  loop.run();
  EXPECT_EQ(gone.code(), base::Code::kUnavailable);
  EXPECT_EQ(::fcntl(own, F_GETFD), -1) << "the launcher's end is still open";
}

TEST_F(Link, PassesTwoSocketsOverSsh) {
  say("MUSTER-LINK ssh as asked\n");
  loop.run();
  ASSERT_TRUE(chosen);
  EXPECT_TRUE(chosen->over_ssh);
  EXPECT_TRUE(has_sockets);
  agent.reset();
  loop.run();
  EXPECT_FALSE(gone.ok());
}

TEST_F(Link, RefusesOtherLines) {
  say(std::string(2000, 'x'));
  loop.run();
  EXPECT_FALSE(chosen);
  EXPECT_EQ(gone.code(), base::Code::kInvalidArgument);
}

TEST_F(Link, ReportsAnAgentThatEndsWithoutALine) {
  EXPECT_NE(::fcntl(own, F_GETFD), -1);
  agent.reset();
  loop.run();
  EXPECT_EQ(gone.code(), base::Code::kUnavailable);
  EXPECT_EQ(::fcntl(own, F_GETFD), -1) << "the launcher's end is still open";
}

}  // namespace
}  // namespace muster::launcherd::agent_channel_test
