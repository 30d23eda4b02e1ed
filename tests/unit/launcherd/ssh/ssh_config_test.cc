#include "launcherd/ssh/ssh_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace muster::launcherd::ssh_config_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SshHostConfig read(const std::map<std::string, std::string>& texts, const std::string& host = "n1",
                   const std::string& user = "") {
  const SshConfigFiles files = {.read = [&](const std::string& path) -> std::optional<std::string> {
                                  const auto it = texts.find(path);
                                  return it == texts.end() ? std::nullopt : std::optional<std::string>(it->second);
                                },
                                .glob =
                                    [&](const std::string& pattern) {
                                      std::vector<std::string> found;
                                      const std::string prefix = pattern.substr(0, pattern.find('*'));
                                      for (const auto& [path, text] : texts) {
                                        if (path.starts_with(prefix)) found.push_back(path);
                                      }
                                      return found;
                                    }};
  return read_ssh_config({.host = host,
                          .user = user,
                          .local_user = "me",
                          .home = "/home/me",
                          .user_file = "/home/me/.ssh/config",
                          .system_file = "/etc/ssh/ssh_config"},
                         files);
}

SshHostConfig read_user(const std::string& text, const std::string& host = "n1") {
  return read({{"/home/me/.ssh/config", text}}, host);
}

TEST(SshConfigTest, NothingConfigured) {
  const SshHostConfig config = read({});
  EXPECT_EQ(config.host_name, "n1");
  EXPECT_EQ(config.needs_ssh, "");
  EXPECT_EQ(config.port, 0);
}

TEST(SshConfigTest, DebiansStockFileNeedsNothing) {
  const SshHostConfig config = read({{"/etc/ssh/ssh_config",
                                      "# comment\nInclude /etc/ssh/ssh_config.d/*.conf\n\nHost *\n"
                                      "#   ForwardAgent no\n    SendEnv LANG LC_*\n    HashKnownHosts yes\n"
                                      "    GSSAPIAuthentication yes\n"}});
  EXPECT_EQ(config.needs_ssh, "");
  EXPECT_TRUE(config.hash_known_hosts);
}

TEST(SshConfigTest, TheFirstValueWinsAndTheUsersFileComesFirst) {
  const SshHostConfig config =
      read({{"/home/me/.ssh/config", "Host n*\n User alice\nHost *\n User bob\n Port=2222\n"},
            {"/etc/ssh/ssh_config", "Port 22\nUser root\nHostName real.example\nStrictHostKeyChecking yes\n"}});
  EXPECT_EQ(config.user, "alice");
  EXPECT_EQ(config.port, 2222);
  EXPECT_EQ(config.host_name, "real.example");
  EXPECT_EQ(config.strict, StrictHostKeys::kYes);
}

TEST(SshConfigTest, HonoursWhatItCan) {
  const SshHostConfig config = read_user(
      "HOSTNAME %h.cluster\nidentityfile ~/.ssh/one\nIdentityFile \"/keys/%h %r\"\nIdentitiesOnly yes\n"
      "UserKnownHostsFile ~/.ssh/a %d/b\nGlobalKnownHostsFile none\nUser alice\n");
  EXPECT_EQ(config.needs_ssh, "");
  EXPECT_EQ(config.host_name, "n1.cluster");
  EXPECT_THAT(config.identity_files, ElementsAre("/home/me/.ssh/one", "/keys/n1.cluster alice"));
  EXPECT_TRUE(config.identities_only);
  EXPECT_THAT(config.user_known_hosts, ElementsAre("/home/me/.ssh/a", "/home/me/b"));
  EXPECT_THAT(config.global_known_hosts, ElementsAre("none"));
}

TEST(SshConfigTest, WhatNeedsSsh) {
  for (const char* line : {"ProxyJump gate",
                           "ProxyCommand nc %h %p",
                           "CertificateFile ~/.ssh/c",
                           "PKCS11Provider /x.so",
                           "Match all",
                           "HostbasedAuthentication yes",
                           "ControlMaster auto",
                           "ControlPath ~/.ssh/%C",
                           "Ciphers aes128-ctr",
                           "HostKeyAlias x",
                           "IdentityAgent /sock",
                           "SomethingNew 1",
                           "Port 0",
                           "Port x",
                           "HostName %n",
                           "User",
                           "IdentityFile ${HOME}/k",
                           "IdentityFile relative",
                           "IdentityFile ~bob/k",
                           "User \"open",
                           "User a'b'",
                           "PubkeyAuthentication no",
                           "PreferredAuthentications password",
                           "BindAddress 1.2.3.4",
                           "AddressFamily inet",
                           "CanonicalizeHostname yes",
                           "StrictHostKeyChecking perhaps",
                           "IdentityFile %C"}) {
    EXPECT_NE(read_user(line).needs_ssh, "") << line;
    const SshHostConfig elsewhere = read_user(std::string("Host other\n") + line + "\n");
    if (!std::string(line).starts_with("Match") && std::string(line).find('"') == std::string::npos &&
        std::string(line).find('\'') == std::string::npos) {
      EXPECT_EQ(elsewhere.needs_ssh, "") << line;
    }
  }
}

TEST(SshConfigTest, SaysWhere) {
  EXPECT_EQ(read_user("User a\nProxyJump gate\n").needs_ssh, "/home/me/.ssh/config:2: proxyjump");
}

TEST(SshConfigTest, WhatIsFineWhenOff) {
  for (const char* line : {"ProxyJump none", "ProxyCommand none", "ControlMaster no", "HostbasedAuthentication no",
                           "CanonicalizeHostname no", "PreferredAuthentications publickey,password"}) {
    EXPECT_EQ(read_user(line).needs_ssh, "") << line;
  }
}

TEST(SshConfigTest, FollowsIncludes) {
  const SshHostConfig config = read({{"/home/me/.ssh/config", "Host n1\nInclude conf.d/*\nHost n2\nInclude other\n"},
                                     {"/home/me/.ssh/conf.d/a", "User alice\nHost x\nPort 9\n"},
                                     {"/home/me/.ssh/conf.d/b", "Port 10\n"},
                                     {"/home/me/.ssh/other", "ProxyJump gate\n"}});
  EXPECT_EQ(config.user, "alice");
  EXPECT_EQ(config.port, 10);
  EXPECT_EQ(config.needs_ssh, "");
  EXPECT_THAT(read_user("Include config\n").needs_ssh, HasSubstr("nested too deeply"));
}

TEST(SshConfigTest, AStrictMatchIsNotOverridden) {
  const SshHostConfig config = read_user("Match host n1\n StrictHostKeyChecking yes\nHost *\n User x\n");
  EXPECT_TRUE(config.is_strict_conditional);
  EXPECT_EQ(config.user, "x");
}

TEST(SshConfigTest, Patterns) {
  struct {
    const char* host;
    std::vector<std::string> patterns;
    bool is_match;
  } const cases[] = {
      {"n1", {"n1"}, true},     {"n1", {"n2"}, false},      {"n1", {"*"}, true},        {"n1", {"n?"}, true},
      {"n12", {"n?"}, false},   {"a.b.c", {"*.c"}, true},   {"a.b.c", {"a*b*c"}, true}, {"n1", {"*", "!n1"}, false},
      {"n1", {"!n2"}, false},   {"n2", {"!n1", "*"}, true}, {"", {"*"}, true},          {"", {"?"}, false},
      {"aaab", {"*aab"}, true}, {"n1", {}, false},
  };
  for (const auto& c : cases) EXPECT_EQ(matches_host_patterns(c.host, c.patterns), c.is_match) << c.host;
}

}  // namespace
}  // namespace muster::launcherd::ssh_config_test
