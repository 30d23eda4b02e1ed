#include "cli/doctor/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/doctor/doctor_report.h"
#include "cli/help/man_page.h"

namespace muster::cli::doctor_test {
namespace {

using model::Check;
using model::CheckState;
using model::HostDiagnosis;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

ParsedDoctor parse_words(const Words& words, const base::Environment& environment = {}) {
  return parse_doctor(words, environment, {.build_id = "test", .system_config = "/nonexistent"});
}

TEST(Doctor, TakesHvdrunsHostAndSshOptions) {
  const ParsedDoctor parsed =
      parse_words({"-H", "n1,al@n2", "-p", "2222", "-i", "key", "--ssh-backend", "ssh", "--agent-link=ssh",
                   "--start-timeout", "5", "--json", "--agent-dir", "/opt/m", "--contain", "subreaper", "--verbose"});
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  EXPECT_TRUE(parsed.json);
  const HvdrunOptions& options = parsed.options;
  ASSERT_EQ(options.request.job.placement.hosts.size(), 2u);
  EXPECT_EQ(options.request.job.placement.hosts[1].user, "al");
  EXPECT_EQ(options.reach.bootstrap.default_port, 2222);
  EXPECT_EQ(options.reach.bootstrap.identity_file, "key");
  EXPECT_EQ(options.reach.bootstrap.agent_dir, "/opt/m");
  EXPECT_EQ(options.reach.bootstrap.backend, launcherd::SshBackend::kSsh);
  EXPECT_EQ(options.reach.agent_link, "ssh");
  EXPECT_EQ(options.reach.contain, "subreaper");
  EXPECT_TRUE(options.output.verbose);
  EXPECT_EQ(options.request.job.start_timeout, std::chrono::seconds(5));
}

TEST(Doctor, SettingsAreThoseOfHvdrun) {
  base::Environment environment;
  environment.set("MUSTER_HOSTS", "n7");
  environment.set("MUSTER_NUM_PROC", "3");
  const ParsedDoctor parsed = parse_words({}, environment);
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  EXPECT_EQ(parsed.options.request.job.placement.hosts.at(0).name, "n7");
  EXPECT_FALSE(parsed.json);
}

struct MistakeRow {
  Words words;
  const char* says;
};

TEST(Doctor, Mistakes) {
  const std::vector<MistakeRow> rows = {
      {{"n1", "n2"}, "muster doctor: 'n1' is not an option: hosts are named by -H n1,n2 or --hostfile\n"},
      {{"--jsn"}, "did you mean --json"},
      {{"-np", "4"}, "muster doctor: "},
      {{"-H", "n1", "--hostfile", "f"}, "exclude each other"},
      {{"-H", "-x"}, "muster doctor: "},
      {{"--agent-link", "carrier-pigeon"}, "must be one of"},
  };
  for (const MistakeRow& row : rows) {
    const ParsedDoctor parsed = parse_words(row.words);
    EXPECT_EQ(parsed.exit_code, 2);
    EXPECT_THAT(parsed.text, StartsWith("muster doctor: "));
    EXPECT_THAT(parsed.text, HasSubstr(row.says));
  }
}

TEST(Doctor, HelpAndManPage) {
  const ParsedDoctor parsed = parse_words({"--help"});
  EXPECT_EQ(parsed.exit_code, 0);
  for (const char* words : {"Usage: muster doctor [options]", "--hostfile", "--json", "--agent-link", "125"}) {
    EXPECT_THAT(parsed.text, HasSubstr(words));
  }
  EXPECT_THAT(man_page(doctor_doc()), HasSubstr("muster doctor"));
}

TEST(DoctorReport, OneRowACheckAndTheFixBelowIt) {
  const std::vector<HostDiagnosis> diagnoses = {
      {.host = "n1",
       .checks = {{"name", CheckState::kOk, "10.0.0.1", ""},
                  {"back-connection", CheckState::kWarn, "not reached", "open ports"}},
       .differences = {{"python", CheckState::kWarn, "3.11.2", "same one"}}},
      {.host = "al@n2",
       .checks = {{"ssh", CheckState::kFail, "connection refused", "start sshd"}},
       .differences = {{"python", CheckState::kWarn, "3.9.1", "same one"}}},
      {.host = "n3", .checks = {{"ssh", CheckState::kOk, "by libssh", ""}}, .differences = {}}};
  EXPECT_EQ("\n" + format_diagnoses(diagnoses), R"(
n1
  name             ok    10.0.0.1
  back-connection  warn  not reached
                         -> open ports

al@n2
  ssh              FAIL  connection refused
                         -> start sshd

n3
  ssh              ok    by libssh

hosts differ
  python           warn  3.11.2 on n1; 3.9.1 on al@n2
                         -> same one

3 hosts: 1 ok, 1 with warnings, 1 with failures (al@n2)
)");
}

TEST(DoctorReport, HostsThatAreAlikeShareTheirRows) {
  std::vector<HostDiagnosis> diagnoses = {
      {.host = "m1", .checks = {{"name", CheckState::kOk, "10.0.0.9", ""}}, .differences = {}}};
  for (const char* const host : {"n1", "al@n2", "n3"}) {
    diagnoses.push_back(
        {.host = host,
         .checks = {{"ssh", CheckState::kFail, fmt::format("refused at 10.0.1.{} port 22", std::string(host).back()),
                     fmt::format("try: ssh {} true", std::string(host).substr(host[0] == 'a' ? 3 : 0))}},
         .differences = {}});
  }
  EXPECT_EQ("\n" + format_diagnoses(diagnoses), R"(
m1
  name             ok    10.0.0.9

3 hosts n1,n3,al@n2
  ssh              FAIL  refused on port 22
                         -> try: ssh HOST true

4 hosts: 1 ok, 3 with failures (n1,n3,al@n2)
)");
}

TEST(DoctorReport, Waiting) {
  EXPECT_EQ(format_waiting(4, {}), "");
  EXPECT_EQ(format_waiting(4, {"n3"}), "3 of 4 hosts have answered; waiting for n3");
  EXPECT_EQ(format_waiting(9, {"n1", "n2", "n3", "head", "login"}),
            "4 of 9 hosts have answered; waiting for n[1-3],head,login");
}

}  // namespace
}  // namespace muster::cli::doctor_test
