// launcherd --check: what it finds, and that it makes nothing.
#include "launcherd/daemon/check.h"

#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/tls.h"
#include "tests/unit/support/certificate_authority.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::check_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class CheckDaemon : public ::testing::Test {
 protected:
  CheckDaemon() {
    options_.hosts = {{.name = "n1", .slots = 4}, {.name = "n2", .slots = std::nullopt}};
    options_.state_directory = folder_.path() + "/state";
    options_.socket_directories = {folder_.path() + "/run"};
  }
  std::map<std::string, CheckLine> check() {
    std::map<std::string, CheckLine> lines;
    for (CheckLine& line : check_daemon(options_, base::SystemClock().wall() + later_)) lines[line.what] = line;
    return lines;
  }
  void listen_by_tls() {
    const auto authority = testing_support::CertificateAuthority::create().value();
    const auto server = authority.issue("launcherd", {"DNS:localhost"}).value();
    options_.tls = {{.address = "0.0.0.0:7400",
                     .certificate = server.cert_pem,
                     .key = server.key_pem,
                     .client_ca = authority.ca_pem(),
                     .client_crl = ""}};
  }

  testing_support::TempDir folder_;
  DaemonOptions options_;
  std::chrono::hours later_{0};
};

TEST_F(CheckDaemon, SaysWhatLauncherdWouldUseAndMakesNothing) {
  options_.http = "127.0.0.1:7480";
  auto lines = check();
  EXPECT_EQ(lines["hosts"].text, "2 hosts with 4 slots; 1 without a number get a slot for each GPU");
  EXPECT_EQ(lines["state"].text, options_.state_directory + " (launcherd makes it)");
  EXPECT_EQ(lines["socket"].text, folder_.path() + "/run/launcherd.sock");
  EXPECT_EQ(lines["page"].text, "http://127.0.0.1:7480");
  for (const auto& [what, line] : lines) EXPECT_FALSE(line.is_wrong) << what;
  EXPECT_FALSE(std::filesystem::exists(options_.state_directory));
}

TEST_F(CheckDaemon, AFolderThatOthersMayEnterIsWrong) {
  std::filesystem::create_directory(options_.state_directory);
  std::filesystem::permissions(options_.state_directory, std::filesystem::perms(0755));
  EXPECT_TRUE(check()["state"].is_wrong);
  EXPECT_THAT(check()["state"].text, HasSubstr("chmod 700"));
}

TEST_F(CheckDaemon, ASocketMustHaveAFolderOfItsOwnAndBeNoOtherFile) {
  options_.socket = folder_.path() + "/s/launcherd.sock";
  EXPECT_EQ(check()["socket"].text, options_.socket);
  std::filesystem::create_directory(folder_.path() + "/s");
  std::filesystem::permissions(folder_.path() + "/s", std::filesystem::perms(0755));
  EXPECT_THAT(check()["socket"].text, HasSubstr("chmod 700"));
  std::filesystem::permissions(folder_.path() + "/s", std::filesystem::perms(0700));
  folder_.write("s/launcherd.sock", "precious");
  EXPECT_THAT(check()["socket"].text, HasSubstr("is no socket"));
  options_.socket = folder_.path() + "/" + std::string(120, 'x');
  EXPECT_THAT(check()["socket"].text, HasSubstr("too long"));
}

TEST_F(CheckDaemon, APageForOtherMachinesIsWrong) {
  options_.http = "0.0.0.0:7480";
  EXPECT_TRUE(check()["page"].is_wrong);
  EXPECT_THAT(check()["page"].text, HasSubstr("not a loopback address"));
}

TEST_F(CheckDaemon, ACertificateMustFitItsKeyAndBeValid) {
  listen_by_tls();
  EXPECT_FALSE(check()["tcp"].is_wrong);
  EXPECT_THAT(check()["tcp"].text, StartsWith("0.0.0.0:7400, certificate valid until 20"));
  later_ = std::chrono::hours(24 * 365 * 200);
  EXPECT_TRUE(check()["tcp"].is_wrong);
  EXPECT_THAT(check()["tcp"].text, HasSubstr("the certificate has expired at 20"));
  later_ = {};
  options_.tls.front().client_crl = "junk";
  EXPECT_THAT(check()["tcp"].text, HasSubstr("--client-crl: "));
  options_.tls.front().key = "x";
  EXPECT_THAT(check()["tcp"].text, HasSubstr("0.0.0.0:7400: the key is not"));
}

}  // namespace
}  // namespace muster::launcherd::check_test
