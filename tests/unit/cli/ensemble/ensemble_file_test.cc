#include "cli/ensemble/ensemble_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"

namespace muster::cli::ensemble_file_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<std::string> lines_of(const std::string& content) {
  const auto ensemble = parse_ensemble(content, "e.yaml");
  if (!ensemble.ok()) return {ensemble.status().message()};
  std::vector<std::string> lines;
  for (const EnsembleJob& job : ensemble->jobs) lines.push_back(base::join(job.arguments, " "));
  return lines;
}

TEST(EnsembleFile, AJobIsALineOfSubmit) {
  EXPECT_THAT(lines_of("defaults: {np: 2, env: {A: 1}}\n"
                       "jobs:\n"
                       "  - {name: one, command: [./run, -x, 'a b']}\n"
                       "  - {name: two, np: 4, timeout: 1h, env: {B: }, options: [--bind-to, core], command: [p]}\n"),
              ElementsAre("--name one --on-launcher-loss kill -np 2 --env A=1 -- ./run -x a b",
                          "--name two --on-launcher-loss kill -np 2 -np 4 --timeout 1h --bind-to core --env A=1 "
                          "--env B= -- p"));
}

TEST(EnsembleFile, ASweepIsEveryCombination) {
  EXPECT_THAT(lines_of("jobs:\n"
                       "  - name: lr-{lr}-{seed}\n"
                       "    sweep: {lr: [0.1, 0.01], seed: 3-4}\n"
                       "    env: {SEED: '{seed}'}\n"
                       "    command: [p, '--lr={lr}', '{rank}', '{{seed}}']\n"),
              ElementsAre("--name lr-0.1-3 --on-launcher-loss kill --env SEED=3 -- p --lr=0.1 {rank} {3}",
                          "--name lr-0.1-4 --on-launcher-loss kill --env SEED=4 -- p --lr=0.1 {rank} {4}",
                          "--name lr-0.01-3 --on-launcher-loss kill --env SEED=3 -- p --lr=0.01 {rank} {3}",
                          "--name lr-0.01-4 --on-launcher-loss kill --env SEED=4 -- p --lr=0.01 {rank} {4}"));
}

TEST(EnsembleFile, ReplacesEachKeyOnce) {
  EXPECT_THAT(lines_of("jobs:\n  - {name: 'n{a}', sweep: {a: ['1'], b: ['{a}']}, command: ['{b}']}\n"),
              ElementsAre("--name n1 --on-launcher-loss kill -- {a}"));
}

TEST(EnsembleFile, ReportsMistakesWithTheirPlaceInTheFile) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"", "e.yaml:1:1: the file must hold keys"},
      {"jobs: []\n", "e.yaml:1:7: jobs must be a list"},
      {"output: a\n", "jobs must be a list"},
      {"jbos: [a]\n", "e.yaml:1:1: unknown key 'jbos' in the file; did you mean jobs?"},
      {"jobs:\n  - {nmae: a}\n", "e.yaml:2:6: unknown key 'nmae' in a job; did you mean name?"},
      {"jobs:\n  - {command: [p]}\n", "e.yaml:2:5: the job has no name"},
      {"jobs:\n  - {name: a}\n", "e.yaml:2:5: job a has no command"},
      {"jobs:\n  - {name: a, command: p -x}\n", "e.yaml:2:24: command takes a list of words"},
      {"jobs:\n  - {name: ../a, command: [p]}\n", "'../a' cannot name a job"},
      {"jobs:\n  - {name: a/b, command: [p]}\n", "cannot name a job"},
      {"jobs:\n  - {name: a, command: [p], sweep: {s: x}}\n", "a key of sweep takes a list of values"},
      {"jobs:\n  - {name: a, command: [p], sweep: {s: []}}\n", "at least one value"},
      {"jobs:\n  - {name: a, command: [p], sweep: {s: 0-1}}\n", "two jobs are named a: put a key of the sweep"},
      {"jobs:\n  - {name: 'a{s}', command: [p], sweep: {s: 0-100000}}\n", "a key of sweep takes a list of values"},
      {"jobs:\n  - {name: 'a{s}-{t}', command: [p], sweep: {s: 1-400, t: 1-400}}\n", "more than 100000 jobs"},
      {"defaults: {name: a}\n", "unknown key 'name' in defaults"},
  };
  for (const auto& [content, expected] : table) {
    const std::string message = lines_of(content).front();
    EXPECT_THAT(message, StartsWith("e.yaml:")) << content;
    EXPECT_THAT(message, HasSubstr(expected)) << content;
  }
}

}  // namespace
}  // namespace muster::cli::ensemble_file_test
