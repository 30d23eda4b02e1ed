// The socket of a foreground job and what is asked over it.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "base/file.h"
#include "launcherd/service/api_client.h"
#include "launcherd/service/api_server.h"
#include "launcherd/service/api_socket.h"

namespace muster::launcherd {
namespace {

constexpr std::chrono::seconds kPatience{30};

class ApiTest : public ::testing::Test {
 protected:
  ApiTest() {
    char name[] = "/tmp/muster-api-test-XXXXXX";
    root_ = ::mkdtemp(name);
  }
  ~ApiTest() override { std::filesystem::remove_all(root_); }
  std::string directory() const { return root_ + "/own"; }
  ApiSocket open(const std::string& job) const {
    auto socket = ApiSocket::open({directory()}, job);
    EXPECT_TRUE(socket.ok()) << socket.status().message();
    return std::move(*socket);
  }

  std::string root_;
};

TEST_F(ApiTest, ASocketIsFoundWhileItLives) {
  {
    const ApiSocket one = open("aaaaaaaa");
    const ApiSocket two = open("bbbbbbbb");
    const auto found = find_launchers({root_ + "/nothing", directory()});
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0].job_id, "aaaaaaaa");
    EXPECT_EQ(found[1].path, two.path());
    struct stat info {};
    ASSERT_EQ(::stat(directory().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
  }
  EXPECT_FALSE(std::filesystem::exists(directory()));
}

TEST_F(ApiTest, WhatAKilledLauncherHasLeftIsRemoved) {
  const ApiSocket alive = open("aaaaaaaa");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = directory() + "/job-dddddddd.sock";
  std::memcpy(address.sun_path, path.c_str(), path.size());
  {
    const base::UniqueFd dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  EXPECT_EQ(find_launchers({directory()}).size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(ApiTest, ADirectoryThatOthersMayEnterIsNotUsed) {
  ASSERT_EQ(::mkdir(directory().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(directory().c_str(), 0755), 0);
  const auto refused = ApiSocket::open({directory()}, "aaaaaaaa");
  EXPECT_FALSE(refused.ok());
  const auto second = ApiSocket::open({directory(), root_ + "/second"}, "aaaaaaaa");
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_EQ(second->path(), root_ + "/second/job-aaaaaaaa.sock");
}

TEST_F(ApiTest, ALinkInPlaceOfTheDirectoryIsNotFollowed) {
  ASSERT_EQ(::mkdir((root_ + "/elsewhere").c_str(), 0700), 0);
  ASSERT_EQ(::symlink((root_ + "/elsewhere").c_str(), directory().c_str()), 0);
  EXPECT_FALSE(ApiSocket::open({directory()}, "aaaaaaaa").ok());
}

TEST_F(ApiTest, ANameThatIsTooLongIsAnError) {
  const auto refused = ApiSocket::open({root_ + "/" + std::string(120, 'x')}, "aaaaaaaa");
  EXPECT_FALSE(refused.ok());
}

// A served job on a thread of its own.
class Served {
 public:
  Served(ApiSocket socket, ApiHandlers handlers) : path_(socket.path()) {
    std::promise<void> up;
    thread_ = std::thread([this, &up, socket = std::move(socket), handlers = std::move(handlers)]() mutable {
      const auto server = ApiServer::start(loop_, std::move(socket), std::move(handlers));
      loop_.post([&up] { up.set_value(); });
      loop_.run();
    });
    up.get_future().wait();
  }
  ~Served() { end(); }
  void end() {
    loop_.stop();
    if (thread_.joinable()) thread_.join();
  }
  const std::string& path() const { return path_; }
  base::Loop& loop() { return loop_; }

 private:
  base::Loop loop_;
  const std::string path_;
  std::thread thread_;
};

TEST_F(ApiTest, StacksComeProcessByProcess) {
  ApiHandlers handlers;
  handlers.stacks = [](const v1::StacksRequest& request, const std::function<void(v1::ProcessStack)>& send,
                       const std::function<void(const base::Status&)>& done) {
    for (const int rank : request.ranks()) {
      v1::ProcessStack process;
      process.set_rank(rank);
      process.set_pid(100 + rank);
      send(std::move(process));
    }
    done(base::ok_status());
  };
  const Served job(open("aaaaaaaa"), std::move(handlers));
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<std::int64_t> pids;
    const base::Status fetched = fetch_stacks(job.path(), {4, 5, 6}, kPatience,
                                              [&](const v1::ProcessStack& process) { pids.push_back(process.pid()); });
    EXPECT_TRUE(fetched.ok()) << fetched.message();
    EXPECT_EQ(pids, (std::vector<std::int64_t>{104, 105, 106}));
  }
}

TEST_F(ApiTest, AnErrorIsTheLaunchersSentence) {
  ApiHandlers handlers;
  handlers.stacks = [](const v1::StacksRequest&, const std::function<void(v1::ProcessStack)>&,
                       const std::function<void(const base::Status&)>& done) {
    done(base::error(base::Code::kInvalidArgument, "there is no rank 9"));
  };
  const Served job(open("aaaaaaaa"), std::move(handlers));
  const base::Status fetched = fetch_stacks(job.path(), {9}, kPatience, [](const v1::ProcessStack&) {});
  EXPECT_EQ(fetched.code(), base::Code::kInvalidArgument);
  EXPECT_EQ(fetched.message(), "there is no rank 9");
}

TEST_F(ApiTest, TheEndOfTheJobEndsWhatIsAsked) {
  std::promise<void> asked;
  ApiHandlers handlers;
  handlers.stacks = [&asked](const v1::StacksRequest&, const std::function<void(v1::ProcessStack)>&,
                             const std::function<void(const base::Status&)>&) { asked.set_value(); };
  Served job(open("aaaaaaaa"), std::move(handlers));
  auto fetched = std::async(std::launch::async,
                            [&] { return fetch_stacks(job.path(), {}, kPatience, [](const v1::ProcessStack&) {}); });
  asked.get_future().wait();
  job.end();
  EXPECT_EQ(fetched.get().code(), base::Code::kUnavailable);
}

TEST_F(ApiTest, JunkOnTheSocketDisturbsNobody) {
  ApiHandlers handlers;
  handlers.stacks = [](const v1::StacksRequest&, const std::function<void(v1::ProcessStack)>&,
                       const std::function<void(const base::Status&)>& done) { done(base::ok_status()); };
  const Served job(open("aaaaaaaa"), std::move(handlers));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, job.path().c_str(), job.path().size());
  std::vector<base::UniqueFd> strangers;
  for (int i = 0; i < 20; ++i) {
    strangers.emplace_back(::socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(::connect(strangers.back().get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    const std::string junk(static_cast<std::size_t>(i) * 100, 'x');
    ASSERT_TRUE(base::write_all_blocking(strangers.back().get(), junk.data(), junk.size()).ok());
  }
  const base::Status fetched = fetch_stacks(job.path(), {}, kPatience, [](const v1::ProcessStack&) {});
  EXPECT_TRUE(fetched.ok()) << fetched.message();
}

}  // namespace
}  // namespace muster::launcherd
