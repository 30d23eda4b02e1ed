#include "launcherd/cleanup/host_command.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/muster/v1/cleanup.pb.h"

namespace muster::launcherd::host_command_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Keeps the questions, and answers when the test says so.
class AnsweringBootstrap final : public Bootstrap {
 public:
  using Finished = std::function<void(base::Result<CommandResult>)>;

  void start(const BootstrapTarget&, JoinSource, std::function<void(base::Result<StartedAgent>)>) override {}
  void run(const BootstrapTarget& target, std::vector<std::string> arguments, Finished finished) override {
    arguments_ = std::move(arguments);
    open_[target.name] = std::move(finished);
  }
  void cancel() override {}

  std::vector<std::string> arguments_;
  std::map<std::string, Finished> open_;
};

std::string frame_of(int alive) {
  v1::CleanupReport report;
  report.set_host("a name of its own");
  for (int i = 0; i < alive; ++i) report.add_alive_jobs("abcdefg2");
  return *proto::frame_message(report);
}

TEST(HostCommand, ReportsComeInTheOrderOfTheHosts) {
  base::Loop loop;
  AnsweringBootstrap bootstrap;
  const std::vector<model::HostSpec> hosts = {{.name = "n1"}, {.name = "n2"}};
  std::vector<std::vector<std::string>> progress;
  HostCommand::Results results;
  HostCommand command(loop, &bootstrap, hosts, {"--cleanup"},
                      {.on_progress = [&](const auto& waiting) { progress.push_back(waiting); },
                       .on_done =
                           [&](HostCommand::Results all) {
                             results = std::move(all);
                             loop.stop();
                           }});
  command.start();
  EXPECT_THAT(bootstrap.arguments_, ElementsAre("--cleanup"));
  bootstrap.open_["n2"](CommandResult{.exit_status = 0, .output = frame_of(2), .errors = ""});
  bootstrap.open_["n1"](base::unavailable("connection refused"));
  loop.run();
  EXPECT_THAT(progress, ElementsAre(ElementsAre("n1", "n2"), ElementsAre("n1"), ElementsAre()));
  const auto reports = host_reports<v1::CleanupReport>(hosts, results, "--cleanup");
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[0].host(), "n1");
  EXPECT_EQ(reports[0].unreachable(), "connection refused");
  EXPECT_EQ(reports[1].host(), "n2") << "the launcher's name for it, not its own";
  EXPECT_EQ(reports[1].alive_jobs_size(), 2);
}

TEST(HostCommand, NothingIsCalledBehindItsEnd) {
  base::Loop loop;
  AnsweringBootstrap bootstrap;
  bool is_called = false;
  {
    HostCommand command(loop, &bootstrap, {{.name = "n1"}}, {"--cleanup"},
                        {.on_progress = {}, .on_done = [&](const HostCommand::Results&) { is_called = true; }});
    command.start();
  }
  bootstrap.open_["n1"](CommandResult{.exit_status = 0, .output = frame_of(0), .errors = ""});
  loop.post([&loop] { loop.stop(); });
  loop.run();
  EXPECT_FALSE(is_called);
}

TEST(HostCommand, OnlyOneWholeFrameIsAnAnswer) {
  const std::string frame = frame_of(1);
  const auto parse = [](const std::string& output, int status) {
    return parse_host_report<v1::CleanupReport>(
        {.exit_status = status, .output = output, .errors = "no such\x1b option\n"}, "--cleanup");
  };
  const auto parsed = parse(frame, 0);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->alive_jobs_size(), 1);
  for (const std::string& bad : {std::string(), frame.substr(0, frame.size() - 1), frame + "x",
                                 std::string("\xff\xff\xff\x7f"), std::string("\x02\0\0\0\xff\xff", 6)}) {
    EXPECT_FALSE(parse(bad, 0).ok());
  }
  EXPECT_THAT(parse(frame, 1).status().message(), HasSubstr("exit code 1: no such\\x1b option"));
}

}  // namespace
}  // namespace muster::launcherd::host_command_test
