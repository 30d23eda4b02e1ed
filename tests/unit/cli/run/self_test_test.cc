#include "cli/run/self_test.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/options/command_line.h"
#include "cli/options/hvdrun_flags.h"
#include "tests/unit/cli/options/parsed.h"
#include "tests/unit/cli/options/spellings.h"

namespace muster::cli::self_test_test {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

// The options of the self-test for `hvdrun WORDS prog`, as parsed.h shows them.
std::string self_test_of(Words words) {
  words.emplace_back("prog");
  const ParsedHvdrun parsed = parse(words);
  EXPECT_FALSE(parsed.exit_code) << base::join(words, " ") << ": " << parsed.text;
  model::Placement placement;
  placement.hosts.resize(2);
  placement.hosts[0].host = {.name = "n1", .slots = 3};
  placement.hosts[1].host = {.name = "n2"};
  ParsedHvdrun test;
  test.options = self_test_options(parsed.options, placement, "/opt/bin");
  EXPECT_THAT(test.options.request.job.command, ElementsAre("/opt/bin/muster_perf", "--self-test"));
  EXPECT_EQ(test.options.request.job.input, model::JobInput{model::InputTo::kNone});
  return show(test);
}

constexpr const char* kPlain = "per_node=1 host=n1:1 host=n2:1 hidden=3 quiet";

// The options that say how hosts are reached, and how ranks start and communicate. All others must not matter.
const std::set<std::string_view> kShared = {"network-interfaces",
                                            "network",
                                            "ssh-port",
                                            "ssh-identity-file",
                                            "ssh-backend",
                                            "bootstrap",
                                            "bootstrap-cmd",
                                            "agent-link",
                                            "fanout",
                                            "agent-dir",
                                            "launcher",
                                            "env",
                                            "env-none",
                                            "wdir",
                                            "bind-to",
                                            "depth",
                                            "hyperthreads",
                                            "reserve-cores",
                                            "gpu-bind",
                                            "gpus-per-rank",
                                            "share-gpu",
                                            "gpu-order",
                                            "gpu-tiles",
                                            "container",
                                            "container-args",
                                            "container-program",
                                            "ulimit",
                                            "verbose",
                                            "start-timeout",
                                            "timeout",
                                            "kill-grace",
                                            "contain"};

bool names_shared(Words words) {
  words.emplace_back("prog");
  const auto line = split_command_line(words, hvdrun_flags());
  return line.ok() && std::ranges::any_of(line->options, [](const ParsedOption& option) {
           return kShared.contains(option.flag->name);
         });
}

TEST(SelfTest, IgnoresEveryOptionThatItDoesNotName) {
  int ignored = 0;
  for (const auto* table : {&launch_table(), &horovod_table()}) {
    for (const Accepted& given : *table) {
      // Horovod's tuning options are variables of the ranks.
      if (names_shared(given.words) || given.shown.starts_with("env=")) continue;
      EXPECT_EQ(self_test_of(given.words), kPlain) << base::join(given.words, " ");
      ++ignored;
    }
  }
  EXPECT_GT(ignored, 50);
}

TEST(SelfTest, StartsItsRanksAsTheJobDoes) {
  EXPECT_THAT(self_test_of({"-x", "A=1", "--start-timeout", "5", "-p", "2222", "--contain", "subreaper"}),
              StartsWith("per_node=1 host=n1:1 host=n2:1 port=2222 env=A=1 "));
  EXPECT_NE(self_test_of({"--network-interface", "ib0"}), kPlain);
}

}  // namespace
}  // namespace muster::cli::self_test_test
