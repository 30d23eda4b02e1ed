// A command's session with a launcher that the test plays, over a real socket.
#include "cli/verbs/exec_session.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/file.h"
#include "launcherd/service/api_server.h"
#include "launcherd/service/api_socket.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::cli::exec_session_test {
namespace {

using launcherd::Replies;
using launcherd::Requests;

// Returns the input of a command as its output, as cat does. A signal ends it.
class EchoLauncher final : public launcherd::ApiHandler {
 public:
  Requests<v1::ExecRequest> exec(const v1::ExecRequest& first, Replies<v1::ExecEvent> replies) override {
    if (first.command(0) == "refused") {
      replies.done(base::invalid_argument("rank: unknown rank 9: the job has ranks 0 to 1"));
      return {};
    }
    v1::ExecEvent event;
    event.mutable_begun()->set_host("n2");
    replies.send(event);
    event.set_error_output("careful\n");
    replies.send(event);
    take(first, replies);
    return {.next = [replies](const v1::ExecRequest& request) { take(request, replies); },
            .gone = [this] { left_.set_value(); }};
  }
  std::future<void> left() { return left_.get_future(); }

 private:
  static void take(const v1::ExecRequest& request, const Replies<v1::ExecEvent>& replies) {
    v1::ExecEvent event;
    if (!request.input().empty()) {
      event.set_output(request.input());
      replies.send(event);
      event.set_input_taken(request.input().size());
      replies.send(event);
    }
    if (!request.end_of_input() && request.signal() == 0) return;
    event.mutable_ended()->set_exit_code(request.signal() == 0 ? 7 : 128 + request.signal());
    replies.send(event);
    replies.done(base::ok_status());
  }

  std::promise<void> left_;
};

class ExecSessionTest : public ::testing::Test {
 protected:
  ExecSessionTest() {
    auto socket = launcherd::ApiSocket::open({root_ / "own"}, "aaaaaaaa");
    EXPECT_TRUE(socket.ok());
    job_ = {.id = "aaaaaaaa", .launcher = launcherd::foreground_address(socket->path())};
    launcherd::ApiListeners listeners;
    listeners.sockets.push_back(std::move(*socket));
    server_ = *launcherd::ApiServer::start(loop_, std::move(listeners), &handler_);
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~ExecSessionTest() override {
    loop_.stop();
    thread_.join();
  }

  // In a thread of its own, because a session blocks signals.
  std::future<ExecOutcome> start(const std::string& command, const ExecStreams& streams, ExecHooks hooks = {}) {
    v1::ExecRequest request;
    request.add_command(command);
    return std::async(std::launch::async, [this, request, streams, hooks = std::move(hooks)] {
      session_ = ::pthread_self();
      return run_exec(job_, request, streams, hooks);
    });
  }
  base::UniqueFd file(const std::string& name, const std::string& content) {
    EXPECT_TRUE(base::write_file_atomically(root_ / name, content).ok());
    return base::UniqueFd(::open((root_ / name).c_str(), O_RDWR | O_CLOEXEC));
  }

  testing_support::TempDir root_;
  base::Loop loop_;
  EchoLauncher handler_;
  FoundJob job_;
  std::unique_ptr<launcherd::ApiServer> server_;
  std::thread thread_;
  pthread_t session_{};
};

TEST_F(ExecSessionTest, CarriesAFileBothWays) {
  std::string content;
  for (int i = 0; content.size() < 3'000'000; ++i) content += std::to_string(i);
  const base::UniqueFd in = file("in", content);
  const base::UniqueFd out = file("out", "");
  const ExecOutcome outcome = start("cat", {.input = in.get(), .output = out.get()}).get();
  ASSERT_TRUE(outcome.end.has_value()) << outcome.failure.message();
  EXPECT_EQ(outcome.end->exit_code(), 7);
  EXPECT_EQ(outcome.host, "n2");
  EXPECT_EQ(outcome.complaints, "careful\n");
  EXPECT_EQ(base::read_file(root_ / "out").value(), content);
}

TEST_F(ExecSessionTest, CarriesAPipe) {
  auto pipe = base::make_pipe();
  ASSERT_TRUE(pipe.ok());
  const base::UniqueFd out = file("out", "");
  std::size_t sent = 0;
  auto running = start("cat", {.input = pipe->first.get(), .output = out.get()},
                       {.on_sent = [&sent](std::size_t bytes) { sent += bytes; }});
  ASSERT_EQ(::write(pipe->second.get(), "hello", 5), 5);
  pipe->second.reset();
  const ExecOutcome outcome = running.get();
  ASSERT_TRUE(outcome.end.has_value());
  EXPECT_EQ(sent, 5U);
  EXPECT_EQ(base::read_file(root_ / "out").value(), "hello");
}

TEST_F(ExecSessionTest, ReportsTheLaunchersRefusal) {
  const base::UniqueFd out = file("out", "");
  const ExecOutcome outcome = start("refused", {.output = out.get()}).get();
  EXPECT_FALSE(outcome.end.has_value());
  EXPECT_EQ(outcome.failure.code(), base::Code::kInvalidArgument);
  EXPECT_EQ(outcome.failure.message(), "rank: unknown rank 9: the job has ranks 0 to 1");
}

TEST_F(ExecSessionTest, AHookMayGiveTheCommandUp) {
  const base::UniqueFd in = file("in", "hello");
  const base::UniqueFd out = file("out", "");
  const ExecOutcome outcome = start("cat", {.input = in.get(), .output = out.get()},
                                    {.on_input_end = [] { return base::data_loss("the file has become shorter"); }})
                                  .get();
  EXPECT_FALSE(outcome.end.has_value());
  EXPECT_EQ(outcome.failure.message(), "the file has become shorter");
  handler_.left().wait();
}

TEST_F(ExecSessionTest, ADeviceThatIsFullGivesTheCommandUp) {
  const base::UniqueFd in = file("in", "hello");
  const base::UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const ExecOutcome outcome = start("cat", {.input = in.get(), .output = full.get()}).get();
  EXPECT_NE(outcome.failure.message().find("No space left"), std::string::npos) << outcome.failure.message();
  EXPECT_FALSE(outcome.is_output_closed);
}

TEST_F(ExecSessionTest, IsGivenUpWhenNobodyReadsItsOutput) {
  const base::UniqueFd in = file("in", std::string(3'000'000, 'x'));
  auto out = base::make_pipe();
  ASSERT_TRUE(out.ok());
  auto running = start("cat", {.input = in.get(), .output = out->second.get()});
  char byte = 0;
  ASSERT_EQ(::read(out->first.get(), &byte, 1), 1);
  // Signals of one kind merge, so there is no telling when the second one has arrived.
  while (running.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
    ASSERT_EQ(::pthread_kill(session_, SIGTERM), 0);
  }
  EXPECT_EQ(running.get().given_up_by, SIGTERM);
}

TEST_F(ExecSessionTest, SignalsGoToTheCommand) {
  auto pipe = base::make_pipe();
  auto sent = base::make_pipe();
  ASSERT_TRUE(pipe.ok() && sent.ok());
  // The command's first output shows that the session blocks signals.
  auto running = start("cat", {.input = pipe->first.get(), .output = sent->second.get()});
  ASSERT_EQ(::write(pipe->second.get(), "x", 1), 1);
  char byte = 0;
  ASSERT_EQ(::read(sent->first.get(), &byte, 1), 1);
  ASSERT_EQ(::pthread_kill(session_, SIGINT), 0);
  const ExecOutcome outcome = running.get();
  ASSERT_TRUE(outcome.end.has_value());
  EXPECT_EQ(outcome.end->exit_code(), 128 + SIGINT);
}

}  // namespace
}  // namespace muster::cli::exec_session_test
