#include "cli/daemon/service_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/net.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::cli::service_manager_test {
namespace {

using ::testing::HasSubstr;

// A socket at which a service manager receives messages.
class Manager {
 public:
  Manager() : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    const auto address = base::unix_address(path());
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address), 0);
  }

  std::string path() const { return root_ / "notify"; }

  std::string received() const {
    char text[512];
    const ssize_t size = ::recv(fd_.get(), text, sizeof text, MSG_DONTWAIT);
    return size < 0 ? "nothing" : std::string(text, static_cast<std::size_t>(size));
  }

 private:
  testing_support::TempDir root_;
  base::UniqueFd fd_;
};

base::Environment with(std::string_view name, std::string_view value) {
  base::Environment environment;
  environment.set(name, value);
  return environment;
}

TEST(ServiceManager, ReceivesEachState) {
  const Manager manager;
  const ServiceManager service(with("NOTIFY_SOCKET", manager.path()));
  EXPECT_TRUE(service.ready("serving 4 hosts\nREADY=0").ok());
  EXPECT_EQ(manager.received(), "READY=1\nSTATUS=serving 4 hosts READY=0");
  EXPECT_TRUE(service.reloading(std::chrono::microseconds(12)).ok());
  EXPECT_EQ(manager.received(), "RELOADING=1\nMONOTONIC_USEC=12");
  EXPECT_TRUE(service.stopping().ok());
  EXPECT_EQ(manager.received(), "STOPPING=1");
}

TEST(ServiceManager, IsOptional) {
  EXPECT_TRUE(ServiceManager(base::Environment()).ready("").ok());
}

TEST(ServiceManager, ReportsASocketThatIsMissingOrHasNoName) {
  EXPECT_THAT(ServiceManager(with("NOTIFY_SOCKET", "/nonexistent/notify")).stopping().message(),
              HasSubstr("/nonexistent/notify"));
  EXPECT_THAT(ServiceManager(with("NOTIFY_SOCKET", "here")).stopping().message(), HasSubstr("no name of a socket"));
  EXPECT_FALSE(ServiceManager(with("NOTIFY_SOCKET", "/" + std::string(200, 'x'))).stopping().ok());
}

TEST(ServiceManager, TakesNoSocketThatIsMeantForAnotherProcess) {
  base::Environment environment = with("LISTEN_FDS", "1");
  environment.set("LISTEN_PID", "17");
  const auto socket = inherited_socket(environment, 18);
  ASSERT_TRUE(socket.ok());
  EXPECT_FALSE(socket->has_value());
  environment.set("LISTEN_FDS", "x");
  EXPECT_FALSE(inherited_socket(environment, 17)->has_value());
}

TEST(ServiceManager, RefusesSeveralSockets) {
  base::Environment environment = with("LISTEN_FDS", "2");
  environment.set("LISTEN_PID", "17");
  EXPECT_THAT(inherited_socket(environment, 17).status().message(), HasSubstr("passes 2 sockets"));
}

}  // namespace
}  // namespace muster::cli::service_manager_test
