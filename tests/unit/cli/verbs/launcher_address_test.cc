#include "cli/verbs/launcher_address.h"

#include <gtest/gtest.h>

#include "cli/verbs/launcherd_verbs.h"
#include "cli/verbs/verb.h"
#include "launcherd/service/api_socket.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::cli::launcher_address_test {
namespace {

base::Environment environment(const std::vector<std::pair<std::string, std::string>>& variables) {
  base::Environment made;
  for (const auto& [name, value] : variables) made.set(name, value);
  return made;
}

Settings said(const std::vector<std::string>& words) {
  const VerbCall call("hosts", hosts_doc(), words);
  EXPECT_FALSE(call.exit_code());
  return call.settings();
}

TEST(LauncherAddressChoice, TheOptionBeforeTheVariable) {
  const auto both = environment({{"MUSTER_LAUNCHER", "n1:7400"}, {"MUSTER_TLS_CERT", "/c"}, {"MUSTER_TLS_CA", "/a"}});
  const auto by_option = need_launcherd(said({"--launcher", "unix:/run/x.sock"}), both);
  ASSERT_TRUE(by_option.ok()) << by_option.status();
  EXPECT_EQ(by_option->path, "/run/x.sock");
  const auto by_variable = need_launcherd(said({"--tls-cert", "/mine"}), both);
  ASSERT_TRUE(by_variable.ok()) << by_variable.status();
  EXPECT_EQ(by_variable->endpoint, "n1:7400");
  EXPECT_EQ(by_variable->tls.certificate, "/mine");
  EXPECT_EQ(by_variable->tls.key, "");
  EXPECT_EQ(by_variable->tls.authority, "/a");
  EXPECT_FALSE(by_variable->is_foreground_job);
}

TEST(LauncherAddressChoice, AMistakeSaysWhoMadeIt) {
  const auto option = find_launcherd(said({"--launcher", "n1"}), environment({}));
  EXPECT_EQ(option.status().message(),
            "--launcher: 'n1' is not a launcher address; write unix:/path, host:port or [v6]:port");
  const auto variable = find_launcherd(said({}), environment({{"MUSTER_LAUNCHER", "n1:x"}}));
  EXPECT_TRUE(variable.status().message().starts_with("MUSTER_LAUNCHER: 'n1:x'")) << variable.status();
}

TEST(LauncherAddressChoice, TheOneOfThisUserOnThisHost) {
  const testing_support::TempDir root;
  const auto here = environment({{"XDG_RUNTIME_DIR", root / "run"}, {"MUSTER_TMPDIR", root.path()}});
  const auto none = find_launcherd(Settings(), here);
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
  const base::Status needed = need_launcherd(Settings(), here).status();
  EXPECT_EQ(needed.code(), base::Code::kNotFound);
  EXPECT_NE(needed.message().find("launcherd --hostfile FILE"), std::string::npos) << needed;
}

}  // namespace
}  // namespace muster::cli::launcher_address_test
