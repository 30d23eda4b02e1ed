// Tests that clients share a connection, against a server in this test that counts its connections.
#include "launcherd/service/api_connection.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "launcherd/service/api_client.h"
#include "proto/muster/v1/launcher.grpc.pb.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::api_connection_test {
namespace {

constexpr std::chrono::seconds kPatience{30};

class Service final : public v1::Launcher::Service {
 public:
  grpc::Status Submit(grpc::ServerContext*, const v1::SubmitRequest*, v1::SubmitResponse* response) override {
    response->set_job_id("abcdefgh");
    return grpc::Status::OK;
  }
};

// A launcher at a Unix socket, which counts its connections.
class UnixLauncher {
 public:
  UnixLauncher() {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    path().copy(name.sun_path, sizeof name.sun_path - 1);
    listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    restart();
    acceptor_ = std::thread([this] {
      for (int fd = 0; (fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
        ++connections_;
        const std::lock_guard lock(mutex_);
        grpc::AddInsecureChannelFromFd(server_.get(), fd);
      }
    });
  }
  ~UnixLauncher() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    acceptor_.join();
    server_->Shutdown(std::chrono::system_clock::now());
  }
  // Cuts all connections.
  void restart() {
    const std::lock_guard lock(mutex_);
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }
  std::string path() const { return root_ / "launcherd.sock"; }
  int connections() const { return connections_; }

 private:
  testing_support::TempDir root_;
  Service service_;
  base::UniqueFd listener_;
  std::mutex mutex_;  // guards the next member
  std::unique_ptr<grpc::Server> server_;
  std::atomic<int> connections_ = 0;
  std::thread acceptor_;
};

TEST(ApiConnection, ClientsOfOneAddressShareAConnection) {
  const UnixLauncher launcher;
  const LauncherAddress address{.path = launcher.path()};
  const LauncherAddress shared = share_connection(address);
  ApiClient one(shared);
  ApiClient two(shared);
  EXPECT_TRUE(one.submit({}, kPatience).ok());
  EXPECT_TRUE(two.submit({}, kPatience).ok());
  { EXPECT_TRUE(ApiClient(shared).submit({}, kPatience).ok()); }
  EXPECT_EQ(launcher.connections(), 1);
  EXPECT_TRUE(ApiClient(address).submit({}, kPatience).ok());
  EXPECT_EQ(launcher.connections(), 2);
}

TEST(ApiConnection, IsOpenedOnceMoreAfterACut) {
  UnixLauncher launcher;
  const LauncherAddress shared = share_connection({.path = launcher.path()});
  ApiClient one(shared);
  ApiClient two(shared);
  EXPECT_TRUE(one.submit({}, kPatience).ok());
  EXPECT_TRUE(two.submit({}, kPatience).ok());
  launcher.restart();
  EXPECT_EQ(one.submit({}, kPatience).status().code(), base::Code::kUnavailable);
  EXPECT_EQ(two.submit({}, kPatience).status().code(), base::Code::kUnavailable);
  EXPECT_TRUE(one.submit({}, kPatience).ok());
  EXPECT_TRUE(two.submit({}, kPatience).ok());
  EXPECT_EQ(launcher.connections(), 2);
}

}  // namespace
}  // namespace muster::launcherd::api_connection_test
