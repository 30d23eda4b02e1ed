#include "launcherd/start/local_bootstrap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <mutex>

#include "launcherd/start/make_bootstrap.h"
#include "tests/unit/launcherd/bootstrap/test_sshd.h"

namespace muster::launcherd::local_bootstrap_test {
namespace {

using ::testing::HasSubstr;

BootstrapOptions options_for(const std::string& program) {
  BootstrapOptions options;
  options.agent_path = program;
  options.agent_id = "fake-build";
  options.start_timeout = std::chrono::seconds(20);
  return options;
}

const BootstrapTarget kHere = {.name = "localhost"};

TEST(LocalBootstrapTest, StartsEchoesAndEnds) {
  const OwnResources before = own_resources();
  std::mutex mutex;
  std::string lines;
  {
    auto options = options_for(fake_agent_path());
    options.on_note = options.on_stderr = [&](const std::string& host, const std::string& line) {
      const std::lock_guard lock(mutex);
      lines += host + ": " + line + "\n";
    };
    LocalBootstrap bootstrap(options);
    auto agent = start_agent(bootstrap, kHere, "join\n");
    ASSERT_TRUE(agent.ok()) << agent.status();
    EXPECT_EQ(agent->backend, "local");
    EXPECT_EQ(read_up_to(agent->stream.get(), 11), "ready\njoin\n");
    expect_echo(*agent, "hello\n");
    ::shutdown(agent->stream.get(), SHUT_WR);
    EXPECT_EQ(read_up_to(agent->stream.get(), 1), "");
  }
  EXPECT_EQ(lines, "localhost: fake agent is up\n");
  EXPECT_LE(own_resources(), before);
}

TEST(LocalBootstrapTest, TakesAJoinThatFillsTheSocket) {
  LocalBootstrap bootstrap(options_for(fake_agent_path()));
  const std::string join(100'000, 'j');
  auto agent = start_agent(bootstrap, kHere, join);
  ASSERT_TRUE(agent.ok()) << agent.status();
  EXPECT_EQ(read_up_to(agent->stream.get(), 6 + join.size()), "ready\n" + join);
}

TEST(LocalBootstrapTest, RunsToTheEnd) {
  LocalBootstrap bootstrap(options_for(fake_agent_path()));
  auto result = run_agent(bootstrap, kHere, {"--sweep", "abcd2345"});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_status, 7);
  EXPECT_EQ(result->output, "swept abcd2345\n");
}

TEST(LocalBootstrapTest, SaysWhyAProgramIsNoAgent) {
  LocalBootstrap missing(options_for("/nowhere/agent"));
  EXPECT_THAT(start_agent(missing, kHere).status().message(), HasSubstr("/nowhere/agent"));
  LocalBootstrap cat(options_for("/bin/cat"));
  const auto agent = start_agent(cat, kHere);
  EXPECT_THAT(agent.status().message(), HasSubstr("ended with exit status 1 before it answered"));
  EXPECT_THAT(agent.status().message(), HasSubstr("--stdio"));  // the message of cat itself
}

TEST(LocalBootstrapTest, CancelEndsAProgramThatSaysNothing) {
  const OwnResources before = own_resources();
  {
    LocalBootstrap bootstrap(options_for(MUSTER_TEST_PROGRAMS "/sleeper"));
    auto promise = std::make_shared<std::promise<base::Result<StartedAgent>>>();
    auto future = promise->get_future();
    bootstrap.start(kHere, ready_join(std::string()),
                    [promise](auto result) { promise->set_value(std::move(result)); });
    bootstrap.cancel();
    ASSERT_EQ(future.wait_for(std::chrono::seconds(10)), std::future_status::ready);
    EXPECT_EQ(future.get().status().code(), base::Code::kCancelled);
  }
  EXPECT_LE(own_resources(), before);
}

TEST(LocalBootstrapTest, TimesOut) {
  auto options = options_for(MUSTER_TEST_PROGRAMS "/sleeper");
  options.start_timeout = std::chrono::milliseconds(200);
  LocalBootstrap bootstrap(options);
  EXPECT_EQ(start_agent(bootstrap, kHere).status().code(), base::Code::kDeadlineExceeded);
}

TEST(MakeBootstrapTest, RefusesWhatCannotWork) {
  auto options = options_for("/etc/passwd");
  EXPECT_EQ(make_bootstrap(options).status().code(), base::Code::kInvalidArgument);
  options.agent_path = fake_agent_path();
  options.agent_dir = "relative";
  EXPECT_EQ(make_bootstrap(options).status().code(), base::Code::kInvalidArgument);
  options.agent_dir = "";
  options.identity_file = "/nowhere/key";
  EXPECT_EQ(make_bootstrap(options).status().code(), base::Code::kNotFound);
}

TEST(MakeBootstrapTest, SendsLocalhostHere) {
  auto bootstrap = make_bootstrap(options_for(fake_agent_path()));
  ASSERT_TRUE(bootstrap.ok()) << bootstrap.status();
  for (const char* name : {"localhost", "127.0.0.1", "::1"}) {
    auto agent = start_agent(**bootstrap, {.name = name});
    ASSERT_TRUE(agent.ok()) << agent.status();
    EXPECT_EQ(agent->backend, "local");
  }
}

}  // namespace
}  // namespace muster::launcherd::local_bootstrap_test
