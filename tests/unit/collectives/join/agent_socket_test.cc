#include "collectives/join/agent_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/ids.h"
#include "base/net.h"

namespace muster::collectives::agent_socket_test {
namespace {

class AgentSocketTest : public ::testing::Test {
 protected:
  // Longer than a socket's address.
  AgentSocketTest()
      : root_(std::filesystem::temp_directory_path() / ("muster-agent-" + base::random_hex(6))),
        directory_(root_ / std::string(120, 'd')) {
    std::filesystem::create_directories(directory_);
    ::chmod(directory_.c_str(), 0700);
  }
  ~AgentSocketTest() override { std::filesystem::remove_all(root_); }

  base::UniqueFd listen() {
    base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(directory_);
    const auto address = base::unix_address("agent.sock");
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address), 0);
    std::filesystem::current_path(before);
    EXPECT_EQ(::listen(fd.get(), 4), 0);
    return fd;
  }

  const std::filesystem::path root_;
  const std::filesystem::path directory_;
};

TEST_F(AgentSocketTest, ConnectsAlsoByALongPath) {
  const base::UniqueFd listening = listen();
  const auto connected = connect_to_agent(directory_.string());
  ASSERT_TRUE(connected.ok()) << connected.status();
  const base::UniqueFd accepted(::accept(listening.get(), nullptr, nullptr));
  EXPECT_TRUE(accepted.valid());
}

TEST_F(AgentSocketTest, NobodyThere) {
  EXPECT_EQ(connect_to_agent((root_ / "missing").string()).status().code(), base::Code::kNotFound);
  EXPECT_EQ(connect_to_agent(directory_.string()).status().code(), base::Code::kNotFound);
  listen().reset();
  EXPECT_THAT(connect_to_agent(directory_.string()).status().message(), ::testing::HasSubstr("Connection refused"));
}

TEST_F(AgentSocketTest, ADirectoryOfOthersIsRefused) {
  const base::UniqueFd listening = listen();
  ASSERT_EQ(::chmod(directory_.c_str(), 0755), 0);
  EXPECT_EQ(connect_to_agent(directory_.string()).status().code(), base::Code::kPermissionDenied);
  ASSERT_EQ(::chmod(directory_.c_str(), 0700), 0);
  std::filesystem::create_directory_symlink(directory_, root_ / "link");
  EXPECT_FALSE(connect_to_agent((root_ / "link").string()).ok());
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown(directory_.c_str(), 65534, 65534), 0);
  EXPECT_EQ(connect_to_agent(directory_.string()).status().code(), base::Code::kPermissionDenied);
}

}  // namespace
}  // namespace muster::collectives::agent_socket_test
