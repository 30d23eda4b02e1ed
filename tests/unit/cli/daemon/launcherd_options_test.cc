#include "cli/daemon/launcherd_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::cli::launcherd_options_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

ParsedLauncherd parse(std::vector<std::string> words, bool is_root = false) {
  base::Environment environment;
  environment.set("HOME", "/nonexistent");
  return parse_launcherd(words, environment, {.build_id = "b", .system_config = "/nonexistent"}, is_root);
}

const std::vector<std::string> kTls = {"--tls-cert", "c", "--tls-key", "k", "--client-ca", "a"};

std::vector<std::string> with_tls(std::vector<std::string> words) {
  words.insert(words.end(), kTls.begin(), kTls.end());
  return words;
}

TEST(LauncherdOptions, ServesTheUsersSocketByDefault) {
  const ParsedLauncherd parsed = parse({});
  EXPECT_FALSE(parsed.exit_code.has_value()) << parsed.text;
  EXPECT_THAT(parsed.sockets, IsEmpty());
  EXPECT_THAT(parsed.addresses, IsEmpty());
  EXPECT_EQ(parsed.state, "");
}

TEST(LauncherdOptions, WhereItServes) {
  const ParsedLauncherd parsed =
      parse(with_tls({"-H", "n1:4", "--listen", "unix:/a/b.sock", "--listen", "[::1]:0", "--listen", "0.0.0.0:7400"}));
  ASSERT_FALSE(parsed.exit_code.has_value()) << parsed.text;
  EXPECT_THAT(parsed.sockets, ElementsAre("/a/b.sock"));
  EXPECT_THAT(parsed.addresses, ElementsAre("[::1]:0", "0.0.0.0:7400"));
  EXPECT_EQ(parsed.tls_certificate, "c");
  EXPECT_EQ(parsed.options.request.job.placement.hosts.at(0).slots, 4);
}

TEST(LauncherdOptions, FairUseIsByUserOrByLabel) {
  EXPECT_FALSE(parse({}).fair_use.is_on);
  EXPECT_FALSE(parse({"--fair-use", "off"}).fair_use.is_on);
  EXPECT_TRUE(parse({"--fair-use", "user"}).fair_use.is_on);
  EXPECT_EQ(parse({"--fair-use", "user"}).fair_use.label, "");
  EXPECT_EQ(parse({"--fair-use", "label:project"}).fair_use.label, "project");
  for (const char* const wrong : {"label:", "users"}) {
    EXPECT_THAT(parse({"--fair-use", wrong}).text,
                HasSubstr(fmt::format("--fair-use: must be off, user or label:NAME, not '{}'", wrong)));
  }
}

TEST(LauncherdOptions, ComeFromFilesAndVariablesToo) {
  const testing_support::TempDir directory;
  const std::string file = directory.write("c.yaml",
                                           "launcherd:\n"
                                           "  listen: [unix:/file.sock, '0.0.0.0:7400']\n"
                                           "  tls_cert: c\n"
                                           "  tls_key: k\n"
                                           "  client_ca: a\n"
                                           "  state: /file/state\n"
                                           "  http: 127.0.0.1:7480\n"
                                           "  accept_agents: 7411\n"
                                           "  join_file: /file/join\n"
                                           "muster: {hosts: 'n1:4'}\n");
  base::Environment environment;
  environment.set("HOME", "/nonexistent");
  environment.set("MUSTER_LAUNCHERD_STATE", "/variable/state");
  environment.set("MUSTER_LAUNCHERD_HTTP", "127.0.0.1:1");
  const auto parsed_of = [&](std::vector<std::string> words) {
    return parse_launcherd(words, environment, {.build_id = "b", .system_config = file}, false);
  };
  const ParsedLauncherd parsed = parsed_of({"--http", "127.0.0.1:2"});
  ASSERT_FALSE(parsed.exit_code.has_value()) << parsed.text;
  EXPECT_THAT(parsed.sockets, ElementsAre("/file.sock"));
  EXPECT_THAT(parsed.addresses, ElementsAre("0.0.0.0:7400"));
  EXPECT_EQ(parsed.tls_certificate, "c");
  EXPECT_EQ(parsed.state, "/variable/state");
  EXPECT_EQ(parsed.http, "127.0.0.1:2");
  EXPECT_EQ(parsed.accept_agents.value().port, 7411);
  EXPECT_EQ(parsed.join_file, "/file/join");
  EXPECT_EQ(parsed.options.request.job.placement.hosts.at(0).slots, 4);
  // The line's addresses replace the file's.
  EXPECT_THAT(parsed_of({"--listen", "unix:/line.sock", "--listen", "h:1"}).addresses, ElementsAre("h:1"));
  directory.write("c.yaml", "launcherd: {htp: x}\n");
  EXPECT_THAT(parsed_of({}).text, HasSubstr("unknown key 'htp' in launcherd; did you mean http?"));
}

TEST(LauncherdOptions, LauncherdYamlHasEachOptionAsAKey) {
  const testing_support::TempDir directory;
  directory.write("config.yaml", "launcherd: {state: /config/state, http: 127.0.0.1:1}\nmuster: {hosts: 'n1:1'}\n");
  directory.write("launcherd.yaml",
                  "hosts: [n1:4, n2:4]\n"
                  "listen: [unix:/file.sock, '0.0.0.0:7400']\n"
                  "tls_cert: c\ntls_key: k\nclient_ca: a\n"
                  "http: 127.0.0.1:7480\nhttp_write: yes\n"
                  "ssh_port: 2222\n"
                  "i_know_jobs_run_as_root: true\n");
  base::Environment environment;
  environment.set("HOME", "/nonexistent");
  const auto parsed_of = [&](std::vector<std::string> words) {
    return parse_launcherd(words, environment, {.build_id = "b", .system_config = directory.path() + "/config.yaml"},
                           true);
  };
  const ParsedLauncherd parsed = parsed_of({"--ssh-port", "22"});
  ASSERT_FALSE(parsed.exit_code.has_value()) << parsed.text;
  EXPECT_EQ(parsed.options.request.job.placement.hosts.size(), 2U) << "it is read after config.yaml";
  EXPECT_EQ(parsed.http, "127.0.0.1:7480");
  EXPECT_TRUE(parsed.http_write);
  EXPECT_EQ(parsed.state, "/config/state");
  EXPECT_EQ(parsed.options.reach.bootstrap.default_port, 22);
  const std::string named = directory.write("named.yaml", "http: 127.0.0.1:2\n");
  EXPECT_EQ(parsed_of({"--config-file", named}).http, "127.0.0.1:2");
  directory.write("named.yaml", "htp: 127.0.0.1:2\n");
  EXPECT_THAT(parsed_of({"--config-file", named}).text,
              HasSubstr("named.yaml:1:1: unknown key 'htp'; did you mean http?"));
  directory.write("launcherd.yaml", "ssh_prot: 1\n");
  EXPECT_THAT(parsed_of({}).text, HasSubstr("launcherd.yaml:1:1: unknown key 'ssh_prot'; did you mean ssh_port?"));
}

TEST(LauncherdOptions, EveryOptionIsAKeyUnlessItIsOfOneCall) {
  const std::vector<std::string> of_one_call = {"help",   "short-help", "version", "man",         "completion",
                                                "schema", "openapi",    "check",   "config-file", "color"};
  for (const Flag& flag : launcherd_flags().flags()) {
    const bool is_of_one_call = std::ranges::find(of_one_call, flag.name) != of_one_call.end();
    EXPECT_NE(flag.is_setting(), is_of_one_call) << flag.name;
  }
}

TEST(LauncherdOptions, Mistakes) {
  const struct {
    std::vector<std::string> words;
    const char* says;
  } kCases[] = {
      {{"--listen", "unix:b.sock"}, "must begin with /"},
      {{"--listen", "7400"}, "must be unix:PATH or HOST:PORT"},
      {{"--listen", ":7400"}, "must be unix:PATH or HOST:PORT"},
      {{"--listen", "h:70000"}, "must be unix:PATH or HOST:PORT"},
      {{"--listen", "unix:/a", "--listen", "unix:/b"}, "give one Unix socket only"},
      {{"--listen", "h:1"}, "needs --tls-cert, --tls-key and --client-ca"},
      {{"--listen", "h:1", "--tls-cert", "c", "--tls-key", "k"}, "needs --tls-cert"},
      {kTls, "need --listen HOST:PORT"},
      {{"--client-crl", "r"}, "--client-crl needs --listen HOST:PORT"},
      {{"--metrics", "7481"}, "must be HOST:PORT"},
      {{"--metrics", "0.0.0.0:7481"}, "other machines get metrics by TLS only"},
      {{"--metrics", "localhost:7481", "--tls-key", "k"}, "--tls-cert and --tls-key belong together"},
      {{"run"}, "'run' is not an option"},
      {{"--hostfiel", "x"}, "--hostfile"},
      {{"-H", "-bad"}, "-H"},
  };
  for (const auto& each : kCases) {
    const ParsedLauncherd parsed = parse(each.words);
    EXPECT_EQ(parsed.exit_code, 2) << each.says;
    EXPECT_THAT(parsed.text, StartsWith("launcherd: "));
    EXPECT_THAT(parsed.text, HasSubstr(each.says));
  }
}

TEST(LauncherdOptions, MetricsNeedNoClientAuthority) {
  const ParsedLauncherd parsed = parse({"--metrics", "0.0.0.0:7481", "--tls-cert", "c", "--tls-key", "k"}, true);
  EXPECT_FALSE(parsed.exit_code.has_value()) << parsed.text;
  EXPECT_EQ(parsed.metrics, "0.0.0.0:7481");
  EXPECT_EQ(parse({"--metrics", "127.0.0.1:7481"}).metrics, "127.0.0.1:7481");
}

TEST(LauncherdOptions, RefusesTcpAsRootUnlessAccepted) {
  EXPECT_THAT(parse(with_tls({"--listen", "h:1"}), true).text, HasSubstr("--i-know-jobs-run-as-root"));
  EXPECT_FALSE(parse(with_tls({"--listen", "h:1", "--i-know-jobs-run-as-root"}), true).exit_code.has_value());
  EXPECT_FALSE(parse({}, true).exit_code.has_value());
}

TEST(LauncherdOptions, HelpVersionAndManual) {
  EXPECT_THAT(parse({"--help"}).text, HasSubstr("--client-ca FILE"));
  EXPECT_THAT(parse({"--help"}).text, HasSubstr("launcherd --hostfile hosts"));
  EXPECT_THAT(parse({"--version"}).text, StartsWith("launcherd "));
  EXPECT_THAT(parse({"--man"}).text, HasSubstr(".TH"));
  EXPECT_THAT(parse({"--completion", "bash"}).text, HasSubstr("-F _launcherd launcherd"));
  for (const char* const word : {"--help", "--version", "--man"}) EXPECT_EQ(parse({word}).exit_code, 0);
}

}  // namespace
}  // namespace muster::cli::launcherd_options_test
