// Tests the socket of a foreground job and the calls over it.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <future>
#include <thread>

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/net.h"
#include "launcherd/service/api_client.h"
#include "launcherd/service/api_server.h"
#include "launcherd/service/api_socket.h"
#include "proto/muster/v1/launcher.grpc.pb.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::api_test {
namespace {

constexpr std::chrono::seconds kPatience{30};

class ApiTest : public ::testing::Test {
 protected:
  std::string directory() const { return root_ / "own"; }
  ApiSocket open(const std::string& job) const {
    auto socket = ApiSocket::open({directory()}, job);
    EXPECT_TRUE(socket.ok()) << socket.status().message();
    return std::move(*socket);
  }

  testing_support::TempDir root_;
};

TEST_F(ApiTest, ASocketIsFoundWhileItLives) {
  {
    const ApiSocket one = open("aaaaaaaa");
    const ApiSocket two = open("bbbbbbbb");
    const auto found = find_launchers({root_ / "nothing", directory()});
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
  const auto second = ApiSocket::open({directory(), root_ / "second"}, "aaaaaaaa");
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_EQ(second->path(), root_ / "second/job-aaaaaaaa.sock");
}

TEST_F(ApiTest, ALinkInPlaceOfTheDirectoryIsNotFollowed) {
  ASSERT_EQ(::mkdir((root_ / "elsewhere").c_str(), 0700), 0);
  ASSERT_EQ(::symlink((root_ / "elsewhere").c_str(), directory().c_str()), 0);
  EXPECT_FALSE(ApiSocket::open({directory()}, "aaaaaaaa").ok());
}

TEST_F(ApiTest, OneLauncherdListensAtASocket) {
  {
    const auto first = ApiSocket::open_for_daemon({root_ / "no/parent", directory()});
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_EQ(first->path(), directory() + "/launcherd.sock");
    EXPECT_TRUE(find_launchers({directory()}).empty());  // these sockets belong to jobs
    const auto second = ApiSocket::open_for_daemon({directory(), root_ / "second"});
    EXPECT_EQ(second.status().code(), base::Code::kAlreadyExists);
    EXPECT_EQ(ApiSocket::open_at(first->path()).status().code(), base::Code::kAlreadyExists);
    const ApiSocket job = open("aaaaaaaa");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory()), {}), 2);  // no incomplete file is left
  }
  EXPECT_FALSE(std::filesystem::exists(directory()));
}

TEST_F(ApiTest, TheSocketOfAKilledLauncherdIsReplaced) {
  ASSERT_EQ(::mkdir(directory().c_str(), 0700), 0);
  const std::string path = directory() + "/launcherd.sock";
  const auto address = base::unix_address(path);
  {
    const base::UniqueFd dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address), 0);
  }
  EXPECT_TRUE(ApiSocket::open_at(path).ok());
  EXPECT_EQ(ApiSocket::open_at("relative").status().code(), base::Code::kInvalidArgument);
}

TEST_F(ApiTest, AFileThatIsNoSocketStays) {
  ASSERT_EQ(::mkdir(directory().c_str(), 0700), 0);
  const std::string path = directory() + "/notes.txt";
  ASSERT_TRUE(base::write_file_atomically(path, "precious").ok());
  const auto refused = ApiSocket::open_at(path);
  EXPECT_EQ(refused.status().code(), base::Code::kAlreadyExists);
  EXPECT_NE(refused.status().message().find("is no socket"), std::string::npos) << refused.status();
  EXPECT_EQ(*base::read_file(path, 100), "precious");
}

TEST_F(ApiTest, ANameThatIsTooLongIsAnError) {
  const auto refused = ApiSocket::open({root_ / std::string(120, 'x')}, "aaaaaaaa");
  EXPECT_FALSE(refused.ok());
}

TEST_F(ApiTest, WhoEndsMeanwhileAndWhoAcceptsNobodyAreToldApart) {
  std::string path;
  {
    const ApiSocket socket = open("aaaaaaaa");
    path = socket.path();
    std::vector<base::UniqueFd> waiting;
    base::Status status = base::ok_status();
    for (int i = 0; i < 1000 && status.ok(); ++i) {
      auto fd = connect_launcher(path, std::chrono::seconds(1));
      status = fd.ok() ? base::ok_status() : fd.status();
      if (fd.ok()) waiting.push_back(std::move(*fd));
    }
    EXPECT_EQ(status.code(), base::Code::kDeadlineExceeded);
    EXPECT_GE(waiting.size(), 100u) << "so many may ask at the same time";
  }
  EXPECT_EQ(connect_launcher(path, kPatience).status().code(), base::Code::kUnavailable);
}

// Answers as the test configures it.
class Handler final : public ApiHandler {
 public:
  void get_job(const v1::GetJobRequest& request, Reply<v1::Job> reply) override {
    v1::Job job;
    job.set_id("aaaaaaaa");
    job.set_attempt(request.first_rank());
    job.set_name("caf\xe9");
    reply(job);
  }
  void kill(const v1::KillRequest& request, Reply<v1::KillResponse> reply) override {
    killed_at_once = request.at_once();
    reply(v1::KillResponse());
  }
  void signal(const v1::SignalRequest& request, Reply<v1::SignalResponse> reply) override {
    reply(base::error(base::Code::kInvalidArgument, "there is no signal {}", request.signal()));
  }
  Gone watch(const v1::WatchRequest& request, Replies<v1::Event> replies) override {
    for (std::uint64_t sequence = request.from_sequence(); sequence < request.from_sequence() + 3; ++sequence) {
      v1::Event event;
      event.set_sequence(sequence);
      replies.send(event);
    }
    watching.set_value();
    return [this] { gone.set_value(); };
  }
  Gone stacks(const v1::StacksRequest& request, Replies<v1::ProcessStack> replies) override {
    for (const int rank : request.ranks()) {
      v1::ProcessStack process;
      process.set_rank(rank);
      process.set_pid(100 + rank);
      process.set_command("caf\xe9");
      replies.send(std::move(process));
    }
    replies.done(request.ranks().empty() ? base::error(base::Code::kFailedPrecondition, "none of these ranks runs")
                                         : base::ok_status());
    return {};
  }

  // Ends at the end of the input. What it returns owns the replies, as in launcherd.
  Requests<v1::ExecRequest> exec(const v1::ExecRequest&, Replies<v1::ExecEvent> replies) override {
    const auto owned = std::make_shared<Replies<v1::ExecEvent>>(std::move(replies));
    exec_replies = owned;
    owned->send(v1::ExecEvent());
    return {.next =
                [owned](const v1::ExecRequest& request) {
                  if (request.end_of_input()) owned->done(base::ok_status());
                },
            .gone = [this, owned] { gone.set_value(); }};
  }

  void explain_hang(const v1::ExplainHangRequest& request, Reply<v1::HangReport> reply) override {
    v1::HangReport report;
    report.set_cause("why " + request.job());
    reply(report);
  }

  std::promise<void> watching;
  std::promise<void> gone;
  std::weak_ptr<Replies<v1::ExecEvent>> exec_replies;  // used on the loop until `gone`
  std::atomic<bool> killed_at_once = false;
};

// A served job on its own thread.
class Served {
 public:
  explicit Served(ApiSocket socket) : path_(socket.path()) {
    std::promise<void> up;
    thread_ = std::thread([this, &up, socket = std::move(socket)]() mutable {
      ApiListeners listeners;
      listeners.sockets.push_back(std::move(socket));
      const auto server = ApiServer::start(loop_, std::move(listeners), &handler);
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

  Handler handler;

 private:
  base::Loop loop_;
  const std::string path_;
  std::thread thread_;
};

ApiClient ask(const std::string& path) {
  return ApiClient(foreground_address(path));
}

v1::GetJobRequest first_rank(int rank) {
  v1::GetJobRequest request;
  request.set_first_rank(rank);
  return request;
}

v1::StacksRequest of_ranks(const std::vector<int>& ranks) {
  v1::StacksRequest request;
  request.mutable_ranks()->Add(ranks.begin(), ranks.end());
  return request;
}

v1::WatchRequest from_sequence(std::uint64_t sequence) {
  v1::WatchRequest request;
  request.set_from_sequence(sequence);
  return request;
}

TEST_F(ApiTest, AnswersOfOneMessage) {
  Served job(open("aaaaaaaa"));
  ApiClient client = ask(job.path());
  const auto got = client.get_job(first_rank(7), kPatience);
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(got->attempt(), 7);
  EXPECT_EQ(got->name(), "caf\xef\xbf\xbd");  // the handler put an invalid byte there
  v1::KillRequest at_once;
  at_once.set_at_once(true);
  EXPECT_TRUE(client.kill(at_once, kPatience).ok());
  EXPECT_TRUE(job.handler.killed_at_once);
  v1::SignalRequest unknown;
  unknown.set_signal(99);
  const base::Status refused = client.signal(unknown, kPatience);
  EXPECT_EQ(refused.code(), base::Code::kInvalidArgument);
  EXPECT_EQ(refused.message(), "there is no signal 99");
}

TEST_F(ApiTest, AnswersOfSeveralMessages) {
  const Served job(open("aaaaaaaa"));
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<std::int64_t> pids;
    const base::Status fetched =
        ask(job.path()).stacks(of_ranks({4, 5, 6}), kPatience, [&](const v1::ProcessStack& process) {
          pids.push_back(process.pid());
          EXPECT_EQ(process.command(), "caf\xef\xbf\xbd");
          return true;
        });
    EXPECT_TRUE(fetched.ok()) << fetched.message();
    EXPECT_EQ(pids, (std::vector<std::int64_t>{104, 105, 106}));
  }
  const base::Status none = ask(job.path()).stacks({}, kPatience, [](const v1::ProcessStack&) { return true; });
  EXPECT_EQ(none.code(), base::Code::kFailedPrecondition);
}

TEST_F(ApiTest, ExplainsHangs) {
  const Served job(open("aaaaaaaa"));
  v1::ExplainHangRequest request;
  request.set_job("it hangs");
  const auto report = ask(job.path()).explain_hang(request, kPatience);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->cause(), "why it hangs");
}

TEST_F(ApiTest, WhatALauncherDoesNotServeIsSaid) {
  const Served job(open("aaaaaaaa"));
  const auto channel = grpc::CreateChannel("unix:" + job.path(), grpc::InsecureChannelCredentials());
  const auto stub = v1::Launcher::NewStub(channel);
  grpc::ClientContext context;
  v1::SubmitResponse response;
  const grpc::Status refused = stub->Submit(&context, v1::SubmitRequest(), &response);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_FALSE(refused.error_details().empty());
  grpc::ClientContext streaming;
  const auto reader = stub->Cleanup(&streaming, v1::CleanupRequest());
  v1::CleanupReport report;
  EXPECT_FALSE(reader->Read(&report));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

// A caller that connects while no descriptor is free is served once a descriptor is free.
TEST_F(ApiTest, ACallerWaitsForAFreeDescriptor) {
  Served job(open("aaaaaaaa"));
  ASSERT_TRUE(ask(job.path()).get_job({}, kPatience).ok());  // opens everything that gRPC opens only once
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  base::UniqueFd caller(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto address = base::unix_address(job.path());
  std::vector<base::UniqueFd> taken;
  std::promise<void> has_turned;
  job.loop().post([&] {
    const rlimit few{256, before.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken.emplace_back(fd);
    EXPECT_EQ(::connect(caller.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address), 0);
    // Runs after the socket was readable and accept() failed.
    job.loop().post([&] { job.loop().post([&] { has_turned.set_value(); }); });
  });
  has_turned.get_future().wait();
  std::promise<void> is_free;
  job.loop().post([&] {
    taken.clear();
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    is_free.set_value();
  });
  is_free.get_future().wait();
  EXPECT_TRUE(ask(job.path()).get_job({}, kPatience).ok());
}

TEST_F(ApiTest, AWatcherThatLeavesIsToldToTheHandler) {
  Served job(open("aaaaaaaa"));
  std::vector<std::uint64_t> seen;
  const base::Status watched = ask(job.path()).watch(from_sequence(5), [&](const v1::Event& event) {
    seen.push_back(event.sequence());
    return seen.size() < 3;
  });
  EXPECT_TRUE(watched.ok()) << watched.message();
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{5, 6, 7}));
  job.handler.gone.get_future().wait();
}

// A call that is never freed keeps its replies.
TEST_F(ApiTest, AStreamBothWaysIsFreedAtItsEnd) {
  Served job(open("aaaaaaaa"));
  ApiClient client = ask(job.path());
  const auto call = client.exec({});
  ASSERT_TRUE(call.ok());
  v1::ExecRequest last;
  last.set_end_of_input(true);
  EXPECT_TRUE((*call)->write(last));
  v1::ExecEvent event;
  EXPECT_TRUE((*call)->read(event));
  EXPECT_FALSE((*call)->read(event));
  EXPECT_TRUE((*call)->finish().ok());
  job.handler.gone.get_future().wait();
  job.end();
  EXPECT_TRUE(job.handler.exec_replies.expired());
}

TEST_F(ApiTest, AStreamBothWaysIsFreedWithTheLauncher) {
  Served job(open("aaaaaaaa"));
  ApiClient client = ask(job.path());
  const auto call = client.exec({});
  ASSERT_TRUE(call.ok());
  v1::ExecEvent event;
  EXPECT_TRUE((*call)->read(event));
  job.end();
  EXPECT_TRUE(job.handler.exec_replies.expired());
  EXPECT_FALSE((*call)->read(event));
  EXPECT_EQ((*call)->finish().code(), base::Code::kUnavailable);
}

TEST_F(ApiTest, TheEndOfTheJobEndsWhatIsAsked) {
  Served job(open("aaaaaaaa"));
  auto watched =
      std::async(std::launch::async, [&] { return ask(job.path()).watch({}, [](const v1::Event&) { return true; }); });
  job.handler.watching.get_future().wait();
  job.end();
  EXPECT_EQ(watched.get().code(), base::Code::kUnavailable);
}

// Calls that the loop has not handled when it ends.
TEST_F(ApiTest, QuestionsThatComeTooLateEnd) {
  Served job(open("aaaaaaaa"));
  std::vector<ApiClient> connected;
  for (int i = 0; i < 9; ++i) {
    connected.push_back(ask(job.path()));
    ASSERT_TRUE(connected.back().get_job({}, kPatience).ok());
  }
  std::promise<void> is_busy;
  std::promise<void> go_on;
  job.loop().post([&] {
    is_busy.set_value();
    go_on.get_future().wait();
    job.loop().stop();
  });
  is_busy.get_future().wait();
  std::vector<std::future<base::Status>> late;
  for (int i = 0; i < 4; ++i) {
    late.push_back(std::async(std::launch::async, [&] { return ask(job.path()).get_job({}, kPatience).status(); }));
    ApiClient& asking = connected[static_cast<std::size_t>(2 * i)];
    ApiClient& watching = connected[static_cast<std::size_t>(2 * i + 1)];
    late.push_back(std::async(std::launch::async, [&] { return asking.get_job({}, kPatience).status(); }));
    late.push_back(
        std::async(std::launch::async, [&] { return watching.watch({}, [](const v1::Event&) { return true; }); }));
  }
  // This is enough time to accept them.
  EXPECT_EQ(connected.back().get_job({}, ApiClient::Patience(1)).status().code(), base::Code::kDeadlineExceeded);
  go_on.set_value();
  job.end();
  for (auto& one : late) EXPECT_EQ(one.get().code(), base::Code::kUnavailable);
}

TEST_F(ApiTest, JunkOnTheSocketDisturbsNobody) {
  const Served job(open("aaaaaaaa"));
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
  EXPECT_TRUE(ask(job.path()).get_job({}, kPatience).ok());
}

}  // namespace
}  // namespace muster::launcherd::api_test
