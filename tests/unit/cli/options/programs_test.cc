// Several programs on one line, and the roles of a job file.
#include "cli/options/programs.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/options/role_file.h"
#include "tests/unit/cli/options/parsed.h"

namespace muster::cli::programs_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// "a np=1 host=n1:2 env=A wdir=/d: ./a x | …"
std::string show(const std::vector<model::Role>& roles) {
  std::vector<std::string> parts;
  for (const model::Role& role : roles) {
    std::string text = fmt::format("{} np={}", role.name, role.np);
    for (const auto& host : role.hosts) text += fmt::format(" host={}:{}", host.name, host.slots.value_or(-1));
    for (const auto& named : role.environment) text += " env=" + named;
    if (!role.workdir.empty()) text += " wdir=" + role.workdir;
    if (role.is_service) text += " service";
    parts.push_back(text + ": " + base::join(role.command, " "));
  }
  return base::join(parts, " | ");
}

std::string shown(const Words& words) {
  const ParsedHvdrun parsed = parse(words);
  return parsed.exit_code ? parsed.text : show(parsed.options.request.job.roles);
}

TEST(Programs, EachHasItsOwnRanks) {
  EXPECT_EQ(shown({"-np", "1", "./a", "x", ":", "-np", "4", "./b", "-np", "7"}), "a np=1: ./a x | b np=4: ./b -np 7");
  EXPECT_EQ(shown({"-n", "1", "./a", ":", "-n4", "./b", ":", "-np=2", "./c"}),
            "a np=1: ./a | b np=4: ./b | c np=2: ./c");
  EXPECT_EQ(parse({"-np", "1", "./a", ":", "-np", "4", "./b"}).options.request.job.placement.np, 5);
}

TEST(Programs, AppliesFourOptionsToOneProgramAndTheOthersToAll) {
  EXPECT_EQ(shown({"--timeout", "5", "-x", "A=1", "-np", "1", "-H", "n1:2", "--wdir", "/d", "./a", ":", "-H", "n2,n3:2",
                   "-x", "B", "./b"}),
            "a np=1 host=n1:2 env=A=1 wdir=/d: ./a | b np=3 host=n2:-1 host=n3:2 env=B: ./b");
  const auto job =
      parse({"--timeout", "5", "-x", "A=1", "-np", "1", "./a", ":", "-np", "1", "./b"}).options.request.job;
  EXPECT_EQ(job.timeout, std::chrono::seconds(5));
  EXPECT_THAT(job.environment.named, IsEmpty());
  EXPECT_EQ(shown({"-np", "1", "./a", ":", "-np", "2", "--timeout", "5", "./b"}),
            "hvdrun: --timeout is for all programs of the line: put it before the first command\n");
}

TEST(Programs, AColonIsAWordUnlessAnOptionFollows) {
  for (const Words& words : std::vector<Words>{{"-np", "1", "sh", "-c", ":"},
                                               {"-np", "1", "prog", ":", "x"},
                                               {"-np", "1", "prog", ":", "--", "x"},
                                               {"-np", "1", "--", "prog", ":", "-np", "1", "x"},
                                               {"-np", "1", "prog", ":", "-unknown", "x"}}) {
    EXPECT_EQ(shown(words), "");
    EXPECT_THAT(parse(words).options.request.job.command, Not(IsEmpty()));
  }
}

TEST(Programs, Mistakes) {
  EXPECT_THAT(shown({"./a", ":", "-np", "4", "./b"}), HasSubstr("./a has no number of ranks: put -np N before it"));
  EXPECT_THAT(shown({"-np", "1", "./a", ":", "-np", "4"}), HasSubstr("a program is missing beside the ':'"));
  EXPECT_THAT(shown({"-np", "1", "./a", ":", "-np", "0", "./b"}), HasSubstr("-np must be a number from 1"));
  EXPECT_THAT(shown({"-np", "1", "./a", ":", "-x", "=", "-np", "1", "./b"}), HasSubstr("is not the name of an"));
}

TEST(Programs, NamesRolesAfterTheirProgramsUniquely) {
  EXPECT_EQ(shown({"-np", "1", "/bin/my prog", ":", "-np", "1", "/bin/my prog", ":", "-np", "1", "..."}),
            "my-prog np=1: /bin/my prog | my-prog-2 np=1: /bin/my prog | program np=1: ...");
}

TEST(Programs, ExpandIsForAll) {
  const auto job = parse({"--expand", "-np", "1", "./a", ":", "-np", "1", "./b"}).options.request.job;
  EXPECT_TRUE(job.expands_roles);
  EXPECT_THAT(job.expand, IsEmpty());
}

constexpr const char* kFile = R"(
roles:
  - name: head
    command: [python3, head.py]
    service: true
  - name: worker
    np: 4
    command: [python3, worker.py, "a b"]
    hosts: [n2, "n3:2"]
    env: {OMP_NUM_THREADS: 4, EMPTY: }
    wdir: /data
muster:
  timeout: 2h
)";

TEST(RoleFile, IsRead) {
  const auto roles = parse_roles(kFile, "job.yaml");
  ASSERT_TRUE(roles.ok()) << roles.status();
  EXPECT_EQ(show(*roles),
            "head np=1 service: python3 head.py | worker np=4 host=n2:-1 host=n3:2 env=OMP_NUM_THREADS=4 env=EMPTY= "
            "wdir=/data: python3 worker.py a b");
  EXPECT_EQ(parse_roles("roles: [{name: a, command: [x], hosts: 'n2:2,n3'}]", "c.yaml")->front().np, 3);
  EXPECT_THAT(*parse_roles("muster: {timeout: 2h}", "c.yaml"), IsEmpty());
  EXPECT_THAT(*parse_roles("", "c.yaml"), IsEmpty());
}

TEST(RoleFile, ReportsMistakesWithTheirPlace) {
  const std::pair<const char*, const char*> table[] = {
      {"roles: 3", "f:1:8: roles takes a list of at least one role"},
      {"roles: []", "f:1:8: roles takes a list"},
      {"roles: [x]", "f:1:9: a role must hold keys: name, np"},
      {"roles: [{command: [a]}]", "the role has no name"},
      {"roles: [{name: a}]", "role a has no command"},
      {"roles: [{name: a, command: sh x}]", "command takes a list of words"},
      {"roles: [{name: a, command: ['']}]", "the command is empty"},
      {"roles: [{name: a, command: []}]", "f:1:28: the command is empty"},
      {"roles: [{name: a, command: [x], env: {A=B: 1}}]", "env: the name 'A=B' holds a '='"},
      {"roles: [{name: a, command: [x], np: 0}]", "f:1:37: np must be a number from 1"},
      {"roles: [{name: a, command: [x], service: perhaps}]", "service must be true or false"},
      {"roles: [{name: a, command: [x], comand: y}]", "unknown key 'comand' in a role; did you mean command?"},
      {"roles: [{name: a, command: [x], hosts: 'a b'}]", "f:1:40: hosts"},
      {"roles: [{name: a, command: [x], env: {'A B': 1}}]", "is not the name of an environment variable"},
      {"roles: [{name: a, command: [x]}, {name: a, command: [x]}]", "f:1:34: two roles are named a"},
      {"roles: [{name: -a, command: [x]}]", "'-a' cannot name a role"}};
  for (const auto& [text, part] : table) {
    const auto roles = parse_roles(text, "f");
    ASSERT_FALSE(roles.ok()) << text;
    EXPECT_THAT(roles.status().message(), HasSubstr(part)) << text;
  }
}

class JobFile : public ::testing::Test {
 protected:
  JobFile() { std::ofstream(path_) << kFile; }
  ~JobFile() override { std::remove(path_.c_str()); }

  const std::string path_ = ::testing::TempDir() + fmt::format("/muster-roles-{}.yaml", ::getpid());
};

TEST_F(JobFile, IsAConfigurationFileWithAJobInIt) {
  const auto parsed = parse({"--config-file", path_});
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  EXPECT_THAT(parsed.options.request.job.roles, SizeIs(2));
  EXPECT_EQ(parsed.options.request.job.placement.np, 5);
  EXPECT_EQ(parsed.options.request.job.timeout, std::chrono::hours(2));
}

TEST_F(JobFile, BringsItsOwnCommands) {
  EXPECT_THAT(parse({"--config-file", path_, "./a"}).text, HasSubstr("has roles with commands of their own"));
  EXPECT_THAT(parse({"--config-file", path_, "-np", "3"}).text, HasSubstr("-np: each of the job's programs has"));
}

}  // namespace
}  // namespace muster::cli::programs_test
