// A probe in a process of its own, as main would run it, on this machine.
#include "agent/probe/probe.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "base/ids.h"
#include "base/net.h"
#include "base/unique_fd.h"
#include "proto/frame.h"
#include "proto/muster/v1/probe.pb.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::probe_test {
namespace {

class ProbeTest : public ::testing::Test {
 protected:
  ProbeTest() {
    join_.set_probe(true);
    join_.set_job_id(base::JobId::random().str());
    join_.set_session_root(root_.path());
    join_.set_contain("subreaper");
    join_.set_link("auto");
    join_.set_dial_timeout_ms(2000);
    join_.add_launcher_addresses("127.0.0.1");
  }
  ~ProbeTest() override {
    if (pid_ > 0) {
      EXPECT_EQ(end(), 0);
    }
    EXPECT_TRUE(std::filesystem::is_empty(root_.path()));  // no session is left
  }

  void start(base::Environment login = base::Environment::current()) {
    auto pair = base::make_socketpair(SOCK_STREAM);
    ASSERT_TRUE(pair.ok());
    pid_ = ::fork();
    ASSERT_GE(pid_, 0);
    if (pid_ == 0) {
      ::dup2(pair->second.get(), STDIN_FILENO);
      ::dup2(pair->second.get(), STDOUT_FILENO);
      pair->first.reset();
      pair->second.reset();
      const base::Status served = serve_probe(join_, login);
      if (!served.ok()) fmt::print(stderr, "{}\n", served.message());
      ::_exit(served.ok() ? 0 : 1);
    }
    stream_ = std::move(pair->first);
  }

  // EOF, and the exit status.
  int end() {
    stream_.reset();
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  v1::ProbeAnswer ask(const v1::ProbeCommand& command) {
    const std::string frame = *proto::frame_message(command);
    EXPECT_TRUE(base::write_all_blocking(stream_.get(), frame.data(), frame.size()).ok());
    v1::ProbeAnswer answer;
    const auto got = proto::read_message_blocking(stream_.get(), answer);
    EXPECT_TRUE(got.ok() && *got);
    return answer;
  }

  v1::HostFacts facts(std::int64_t python_timeout_ms = 20'000) {
    v1::ProbeCommand command;
    command.mutable_ask_facts()->set_python_timeout_ms(python_timeout_ms);
    return ask(command).facts();
  }

  testing_support::TempDir root_;
  v1::AgentJoin join_;
  base::UniqueFd stream_;
  pid_t pid_ = 0;
};

TEST_F(ProbeTest, Clock) {
  start();
  v1::ProbeCommand command;
  command.mutable_read_clock();
  const auto before = std::chrono::system_clock::now().time_since_epoch();
  const auto theirs = std::chrono::nanoseconds(ask(command).clock().wall_ns());
  EXPECT_GE(theirs, before);
  EXPECT_LE(theirs, std::chrono::system_clock::now().time_since_epoch());
}

TEST_F(ProbeTest, FactsOfThisMachine) {
  auto listening = base::listen_any(0, 4);
  ASSERT_TRUE(listening.ok());
  join_.set_output_port(*base::local_port(listening->get()));
  start();
  const v1::HostFacts found = facts();
  EXPECT_GT(found.hello().cores_size(), 0);
  EXPECT_NE(found.hello().kernel(), "");
  EXPECT_EQ(found.hello().containment(), "subreaper");
  EXPECT_EQ(found.containment_failure(), "");
  EXPECT_EQ(found.launcher().address(), "127.0.0.1");
  EXPECT_EQ(found.thread_failure(), "");
  EXPECT_GE(found.limits_size(), 3);
  EXPECT_GE(found.spaces_size(), 2);
  EXPECT_EQ(found.spaces(0).path(), root_.path());
  EXPECT_EQ(found.python().failure(), "");
  EXPECT_EQ(found.python().version().substr(0, 2), "3.");
  // Its port is reached by another, here by itself.
  v1::ProbeCommand reach;
  reach.mutable_reach()->add_addresses("127.0.0.1");
  reach.mutable_reach()->set_port(found.listen_port());
  reach.mutable_reach()->set_timeout_ms(2000);
  EXPECT_EQ(ask(reach).reached().address(), "127.0.0.1");
}

TEST_F(ProbeTest, NobodyListens) {
  {
    auto listening = base::listen_any(0, 4);
    ASSERT_TRUE(listening.ok());
    join_.set_output_port(*base::local_port(listening->get()));
  }
  start();
  const v1::HostFacts found = facts();
  EXPECT_EQ(found.launcher().address(), "");
  EXPECT_NE(found.launcher().failure().find("refused"), std::string::npos) << found.launcher().failure();
}

TEST_F(ProbeTest, NothingIsDialledOverSsh) {
  join_.set_link("ssh");
  start();
  EXPECT_FALSE(facts().has_launcher());
}

TEST_F(ProbeTest, ShapeAlone) {
  start();
  v1::ProbeCommand command;
  command.mutable_ask_facts()->set_shape_only(true);
  const v1::HostFacts found = ask(command).facts();
  EXPECT_GT(found.hello().cores_size(), 0);
  EXPECT_FALSE(found.has_python());
  EXPECT_EQ(found.limits_size(), 0);
}

TEST_F(ProbeTest, NoPython) {
  base::Environment login;
  login.set("PATH", root_ / "nowhere");
  start(login);
  const v1::HostFacts found = facts();
  EXPECT_NE(found.python().failure().find("cannot run 'python3'"), std::string::npos) << found.python().failure();
}

TEST_F(ProbeTest, APythonThatHangsIsEnded) {
  const std::string folder = root_ / "bin";
  std::filesystem::create_directory(folder);
  const std::string script = "#!/bin/sh\nexec sleep 1000\n";
  const std::string path = folder + "/python3";
  {
    const base::UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0755));
    ASSERT_TRUE(base::write_all_blocking(file.get(), script.data(), script.size()).ok());
  }
  base::Environment login;
  login.set("PATH", folder + ":/usr/bin:/bin");
  start(login);
  const v1::HostFacts found = facts(300);
  EXPECT_NE(found.python().failure().find("did not answer"), std::string::npos) << found.python().failure();
  EXPECT_EQ(found.containment_failure(), "");
  std::filesystem::remove_all(folder);
}

TEST_F(ProbeTest, ARootThatCannotHoldASession) {
  join_.set_session_root(root_ / "missing");
  start();
  const v1::HostFacts found = facts();
  EXPECT_NE(found.containment_failure(), "");
  EXPECT_FALSE(found.has_python());
  EXPECT_NE(found.spaces(0).failure(), "");
}

TEST_F(ProbeTest, JunkEndsIt) {
  start();
  const std::string junk = "\x02\x01\x01\x01";
  ASSERT_TRUE(base::write_all_blocking(stream_.get(), junk.data(), junk.size()).ok());
  EXPECT_EQ(end(), 1);
}

}  // namespace
}  // namespace muster::agent::probe_test
