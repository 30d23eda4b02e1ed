#include "launcherd/site/site_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"

namespace muster::launcherd::site_command_test {
namespace {

using ::testing::HasSubstr;

const SiteAgent kAgent = {
    .program = "/h/agent-1", .args = {"--join", "/h/join-1"}, .join_file = "/h/join-1", .host_file = "/h/join-1.hosts"};
const SiteAgent kSweep = {.program = "/h/agent-1", .args = {"--sweep", "abcd2345"}, .host_file = "/h/hosts"};

// Shows the commands, one a line, each after the indices of its hosts.
std::string show(const base::Result<std::vector<SiteCommand>>& commands) {
  if (!commands.ok()) return commands.status().message();
  std::string text;
  for (const SiteCommand& command : *commands) {
    for (const std::size_t host : command.hosts) text += fmt::format("{},", host);
    text += " " + base::join(command.argv, " ") + "\n";
  }
  return text;
}

std::string of(BootstrapBy by, const std::vector<std::string>& hosts, const std::vector<std::string>& allocation = {},
               const SiteAgent& agent = kAgent) {
  std::vector<BootstrapTarget> targets;
  for (const std::string& host : hosts) targets.push_back({.name = host});
  return show(site_commands({.by = by, .words = {}, .allocation = allocation}, targets, agent));
}

std::string by_template(const std::string& text, const BootstrapTarget& target, const SiteAgent& agent = kAgent) {
  const auto words = split_words(text);
  if (!words.ok()) return words.status().message();
  const auto commands =
      site_commands({.by = BootstrapBy::kCommand, .words = *words, .allocation = {}}, {target}, agent);
  return commands.ok() ? base::join(commands->front().argv, "|") : commands.status().message();
}

TEST(SiteCommandTest, SrunIsOneStepWithATaskANodeThatIsBoundToNothing) {
  EXPECT_EQ(
      of(BootstrapBy::kSrun, {"n2", "n4"}),
      "0,1, srun --overlap --mpi=none --cpu-bind=none --kill-on-bad-exit=0 --wait=0 --no-kill --mem=0 --input=none "
      "--unbuffered --job-name=muster --chdir=/ --distribution=block --export=MUSTER_JOIN=/h/join-1 --nodes=2 "
      "--ntasks=2 --ntasks-per-node=1 --nodelist=n2,n4 /h/agent-1 --join /h/join-1\n");
  EXPECT_THAT(of(BootstrapBy::kSrun, {"n2"}, {}, kSweep),
              HasSubstr("--export=HOME,USER,PATH --nodes=1 --ntasks=1 --ntasks-per-node=1 --nodelist=n2 /h/agent-1 "
                        "--sweep abcd2345"));
}

TEST(SiteCommandTest, AprunNamesNodesByTheirNumbers) {
  EXPECT_EQ(of(BootstrapBy::kAprun, {"nid03835", "nid00004"}),
            "0,1, aprun -n 2 -N 1 -cc none -b -q -L 3835,4 -e MUSTER_JOIN=/h/join-1 /h/agent-1 --join /h/join-1\n");
  EXPECT_THAT(of(BootstrapBy::kAprun, {"n1"}), HasSubstr("--bootstrap aprun: 'n1' is not an ALPS node name"));
}

TEST(SiteCommandTest, PalsReadsAHostFile) {
  EXPECT_EQ(of(BootstrapBy::kPals, {"x1", "x2"}),
            "0,1, mpiexec -n 2 --ppn 1 --cpu-bind none --hostfile /h/join-1.hosts --env MUSTER_JOIN=/h/join-1 "
            "/h/agent-1 --join /h/join-1\n");
}

TEST(HostIndexTest, ByTheWholeNameThenByAShortOneOfOneHostNeverByAPartOfAnAddress) {
  const HostIndex index({"10.0.0.1", "10.0.0.2", "n1.a", "n1.a", "n1.b", "n2.a"});
  EXPECT_EQ(index.find("10.0.0.2"), 1u);
  EXPECT_EQ(index.find("10.0.0.3"), std::nullopt);
  EXPECT_EQ(index.find("10"), std::nullopt);
  EXPECT_EQ(index.find("n1.b"), 4u);
  EXPECT_EQ(index.find("n1"), std::nullopt);  // nullopt, because two names match
  EXPECT_EQ(index.find("n2"), 5u);
  EXPECT_EQ(index.find("n2.other"), 5u);
  EXPECT_EQ(of(BootstrapBy::kPbsdsh, {"10.0.0.1", "10.0.0.2"}, {"10.0.0.1", "10.0.0.2"}),
            "0, pbsdsh -n 0 -- /h/agent-1 --join /h/join-1 --host 10.0.0.1\n"
            "1, pbsdsh -n 1 -- /h/agent-1 --join /h/join-1 --host 10.0.0.2\n");
}

TEST(SiteCommandTest, PbsdshIsOneAHostByItsPlaceInTheNodeFile) {
  EXPECT_EQ(of(BootstrapBy::kPbsdsh, {"b", "a"}, {"a.site", "a.site", "b.site"}),
            "0, pbsdsh -n 2 -- /h/agent-1 --join /h/join-1 --host b\n"
            "1, pbsdsh -n 0 -- /h/agent-1 --join /h/join-1 --host a\n");
  EXPECT_EQ(of(BootstrapBy::kPbsdsh, {"c"}, {"a", "b", "a"}),
            "--bootstrap pbsdsh: host c is not in the current allocation (a, b)");
}

TEST(SiteCommandTest, FluxNumbersTheNodesOnce) {
  EXPECT_EQ(of(BootstrapBy::kFlux, {"c", "a"}, {"a", "a", "b", "b", "c"}),
            "0,1, flux exec -n -r 2,0 /h/agent-1 --join /h/join-1\n");
}

TEST(SiteCommandTest, JsrunTakesAllOfTheAllocation) {
  EXPECT_EQ(of(BootstrapBy::kJsrun, {"a", "b"}, {"a", "b"}),
            "0,1, jsrun -n 2 -r 1 -a 1 -c ALL_CPUS -g ALL_GPUS -b none -E MUSTER_JOIN=/h/join-1 /h/agent-1 --join "
            "/h/join-1\n");
  EXPECT_THAT(of(BootstrapBy::kJsrun, {"a"}, {"a", "b"}), HasSubstr("jsrun starts on all 2 hosts"));
}

TEST(SiteCommandTest, ATemplateIsWordsAndNeverAShellsCommand) {
  EXPECT_EQ(by_template("rsh {host} {cmd}", {.name = "n1"}), "rsh|n1|/h/agent-1|--join|/h/join-1|--host|n1");
  EXPECT_EQ(by_template("ssh -l x {host} {cmd}", {.name = "n1", .user = "al"}),
            "ssh|-l|x|al@n1|/h/agent-1|--join|/h/join-1|--host|n1");
  EXPECT_EQ(by_template("enter --host={host} -- sh -c 'exec {cmd}; $(reboot)'", {.name = "n1"}),
            "enter|--host=n1|--|sh|-c|exec /h/agent-1 --join /h/join-1 --host n1; $(reboot)");
  EXPECT_EQ(by_template("x {host} 'a {cmd}'", {.name = "n1"}, kSweep), "x|n1|a /h/agent-1 --sweep abcd2345");
  SiteAgent odd = kAgent;
  odd.program = "/h/a b";
  EXPECT_EQ(by_template("x {host} '{cmd} '", {.name = "n1"}, odd), "x|n1|'/h/a b' --join /h/join-1 --host n1 ");
}

TEST(SiteCommandTest, WordsAreSplitOnce) {
  struct Row {
    std::string text;
    std::string words;
  };
  for (const Row& row : std::vector<Row>{
           {"  a\t{host}  {cmd} ", "a|{host}|{cmd}"},
           {"a 'b c' \"d e\" {host} {cmd}", "a|b c|d e|{host}|{cmd}"},
           {"a 'b\"c' \"d'e\" f\\ g \"h\\\"i\" 'j\\k' {host}{cmd}", "a|b\"c|d'e|f g|h\"i|j\\k|{host}{cmd}"},
           {"a '' {host} {cmd}", "a||{host}|{cmd}"},
           {"a $HOME `x` {host} {cmd}", "a|$HOME|`x`|{host}|{cmd}"},
       }) {
    const auto words = split_words(row.text);
    ASSERT_TRUE(words.ok()) << words.status();
    EXPECT_EQ(base::join(*words, "|"), row.words);
  }
  for (const char* text :
       {"", " ", "a", "a {host}", "a {cmd}", "a '{host} {cmd}", "a {host} {cmd}\\", "'' {host} {cmd}"}) {
    const auto words = split_words(text);
    EXPECT_EQ(words.status().code(), base::Code::kInvalidArgument) << text;
    EXPECT_THAT(words.status().message(), HasSubstr("as in 'rsh {host} {cmd}'"));
  }
}

TEST(SiteCommandTest, ByHandItIsOneLine) {
  EXPECT_EQ(typed_command({.name = "n1"}, kAgent), "/h/agent-1 --join /h/join-1 --host n1");
  EXPECT_FALSE(site_commands({.by = BootstrapBy::kManual}, {{.name = "n1"}}, kAgent).ok());
}

}  // namespace
}  // namespace muster::launcherd::site_command_test
