#include "launcherd/bootstrap/remote_command.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace muster::launcherd::remote_command_test {
namespace {

TEST(RemoteCommandTest, TheDefaultCommandIsPlain) {
  const auto paths = remote_paths("", "0123abcd", "x86_64", "r4nd");
  ASSERT_TRUE(paths.ok());
  EXPECT_EQ(cached_command(*paths, {"--stdio"}), "exec ~/.cache/muster/agent-0123abcd-x86_64 --stdio");
  EXPECT_EQ(install_command(*paths, "5ha", {"--sweep", "abcd2345"}),
            "exec ~/.cache/muster/.agent-0123abcd-x86_64.r4nd --install 5ha ~/.cache/muster/agent-0123abcd-x86_64 "
            "--sweep abcd2345");
  EXPECT_EQ(remove_command(*paths),
            "exec rm -f ~/.cache/muster/.agent-0123abcd-x86_64.r4nd ~/.cache/muster/.agent-0123abcd-x86_64.r4nd_new");
  EXPECT_EQ(sftp_path(paths->agent), ".cache/muster/agent-0123abcd-x86_64");
}

TEST(RemoteCommandTest, APackedAgentIsReceivedByOneCommand) {
  const auto paths = remote_paths("", "id", "x86_64", "r");
  ASSERT_TRUE(paths.ok());
  const std::string receive =
      "umask 077; mkdir -p ~/.cache/muster && true > ~/.cache/muster/.agent-id-x86_64.r && exec 3> "
      "~/.cache/muster/.agent-id-x86_64.r && echo && echo \"MUSTER-STEP send\" `uname -sm` && head -c 77 >&3 && exec "
      "3>&- && test 77 -eq `wc -c < ~/.cache/muster/.agent-id-x86_64.r` && chmod 700 "
      "~/.cache/muster/.agent-id-x86_64.r || { rm -f ~/.cache/muster/.agent-id-x86_64.r; exit 1; }; exec "
      "~/.cache/muster/.agent-id-x86_64.r agent-id-x86_64 --stdio'";
  EXPECT_EQ(packed_command(*paths, {.unpacker_size = 77}, {"--stdio"}), "exec /bin/sh -c '" + receive);
  EXPECT_EQ(packed_command(*paths, {.unpacker_size = 77, .shared = "~/.cache/muster/.agent-id-x86_64.q"}, {"--stdio"}),
            "exec /bin/sh -c 'test -e ~/.cache/muster/.agent-id-x86_64.q && { echo; echo \"MUSTER-STEP shared\"; exit "
            "0; }; " +
                receive);
  EXPECT_EQ(
      packed_command(*paths, {.unpacker_size = 77, .stops_if_there_is_one = true}, {"--stdio"}),
      "exec /bin/sh -c 'test -e ~/.cache/muster/agent-id-x86_64 && { echo; echo \"MUSTER-STEP shared\"; exit 0; }; " +
          receive);
}

TEST(RemoteCommandTest, NothingInACheckEndsTheQuotesOfTheLoginShell) {
  auto paths = remote_paths("/scratch/alice/", "id", "x86_64", "r");
  ASSERT_TRUE(paths.ok());
  EXPECT_EQ(paths->directory, "/scratch/alice");
  paths->pbs_job = "12.srv";
  const PackedCommand packed{.unpacker_size = 77, .shared = "/scratch/alice/.x", .stops_if_there_is_one = true};
  for (const std::string& command :
       {cached_command(*paths, {"--stdio"}), packed_command(*paths, packed, {"--stdio"})}) {
    EXPECT_TRUE(command.starts_with("exec /bin/sh -c '")) << command;
    EXPECT_EQ(std::ranges::count(command, '\''), 2);
    EXPECT_EQ(command.back(), '\'');
    EXPECT_EQ(command.find('\n'), std::string::npos);
    // csh expands a ! in single quotes unless one of these characters follows it.
    for (std::size_t at = command.find('!'); at != std::string::npos; at = command.find('!', at + 1)) {
      EXPECT_TRUE(command[at + 1] == ' ' || command[at + 1] == '=') << command.substr(at);
    }
  }
  EXPECT_EQ(sftp_path(paths->agent), "/scratch/alice/agent-id-x86_64");
}

TEST(RemoteCommandTest, InsidePbsAgentsJoinTheJobWhereTheHostCan) {
  auto paths = remote_paths("", "id", "x86_64", "r");
  ASSERT_TRUE(paths.ok());
  paths->pbs_job = "12[3].srv";
  EXPECT_EQ(cached_command(*paths, {"--stdio"}),
            "exec /bin/sh -c 'test -e ~/.cache/muster/agent-id-x86_64 || { echo ~/.cache/muster/agent-id-x86_64: not "
            "found >&2; exit 127; }; if command -v pbs_attach >/dev/null 2>&1; then pbs_attach -j \"12[3].srv\" -p $$ "
            ">&2; fi; exec ~/.cache/muster/agent-id-x86_64 --stdio'");
  EXPECT_EQ(
      install_command(*paths, "5ha", {"--stdio"}),
      "exec /bin/sh -c 'test -e ~/.cache/muster/.agent-id-x86_64.r || { echo ~/.cache/muster/.agent-id-x86_64.r: "
      "not found >&2; exit 127; }; if command -v pbs_attach >/dev/null 2>&1; then pbs_attach -j \"12[3].srv\" -p "
      "$$ >&2; fi; exec ~/.cache/muster/.agent-id-x86_64.r --install 5ha ~/.cache/muster/agent-id-x86_64 --stdio'");
  for (const char* id : {"1.srv", "12[3].srv-1_x", "7"}) EXPECT_TRUE(is_pbs_job(id)) << id;
  for (const char* id : {"", "-1", "1;reboot", "1'", "1\"", "$(x)", "1 2", "`x`"}) EXPECT_FALSE(is_pbs_job(id)) << id;
}

TEST(RemoteCommandTest, RefusesWhatAShellWouldTouch) {
  for (const char* directory : {"relative", "~bob/x", "/a b", "/a;b", "/$HOME", "/a'b", "~/", "/a\nb", "/a!b"}) {
    EXPECT_FALSE(remote_paths(directory, "id", "x86_64", "r").ok()) << directory;
  }
  for (const char* id : {"", "a b", "a/b", "a;b", "$(x)"}) EXPECT_FALSE(remote_paths("", id, "x86_64", "r").ok()) << id;
  for (const char* name : {"", "-n1", ".n1", "n 1", "n1;x", "n1:2", "a@b", "[::1]"}) {
    EXPECT_FALSE(check_target_names(name, "").ok()) << name;
  }
  for (const char* name : {"n1", "_x", "a.b-c_d", "10.0.0.1", "fe80::1%eth0", "::1"}) {
    EXPECT_TRUE(check_target_names(name, "alice").ok()) << name;
  }
  EXPECT_FALSE(check_target_names("n1", "-lroot").ok());
  EXPECT_FALSE(check_target_names("n1", "a b").ok());
  EXPECT_FALSE(check_agent_args({"a;b"}).ok());
  EXPECT_FALSE(check_agent_args({""}).ok());
  EXPECT_TRUE(check_agent_args({"--sweep", "abcd2345", "x=1,2"}).ok());
}

TEST(RemoteCommandTest, ReadsUname) {
  EXPECT_EQ(parse_uname("Linux x86_64\n").arch, "x86_64");
  EXPECT_EQ(parse_uname("Hello World\nWelcome to n1 today\nLinux aarch64\n").arch, "aarch64");
  EXPECT_EQ(parse_uname("FreeBSD amd64\r\n").os, "FreeBSD");
  EXPECT_EQ(parse_uname("").os, "");
  EXPECT_EQ(parse_uname("This account is not available\n").os, "");
}

}  // namespace
}  // namespace muster::launcherd::remote_command_test
