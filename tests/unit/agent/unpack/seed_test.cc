#include "agent/unpack/seed.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "agent/unpack/fetch.h"
#include "base/unique_fd.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::seed_test {
namespace {

constexpr std::chrono::seconds kLong{30};
const std::string kToken(64, 't');

class SeedTest : public ::testing::Test {
 protected:
  SeedTest() {
    text_.assign(3'000'000, 'x');
    for (std::size_t i = 0; i < text_.size(); i += 1000) text_[i] = static_cast<char>(i / 1000);
    path_ = folder_.write("agent", text_);
  }
  // Serves in a thread of this process until `ends_` closes.
  void serve(std::chrono::milliseconds time) {
    int listener = -1;
    ASSERT_EQ(listen_for_peers(listener, port_), "");
    ends_ = *base::make_pipe();
    thread_ = std::thread([this, listener, time] {
      const base::UniqueFd socket(listener);
      const base::UniqueFd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
      serve_peers(socket.get(), file.get(), kToken, time, ends_.first.get());
    });
  }
  ~SeedTest() override {
    ends_.second.reset();
    if (thread_.joinable()) thread_.join();
  }
  Problem fetch(const std::string& token, const std::string& name = "f") {
    const base::UniqueFd fd(::open((folder_ / name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    HashedFile file(fd.get(), text_.size());
    return fetch_agent("127.0.0.1", port_, token, file, {.silence = kLong, .whole = kLong});
  }

  testing_support::TempDir folder_;
  std::string text_;
  std::string path_;
  int port_ = 0;
  base::FdPair ends_;
  std::thread thread_;
};

TEST_F(SeedTest, ServesSeveralPeersAtOnce) {
  serve(kLong);
  std::vector<std::thread> peers;
  for (int i = 0; i < 5; ++i) {
    peers.emplace_back([this, i] {
      const std::string name = "f" + std::to_string(i);
      EXPECT_EQ(fetch(kToken, name), "");
      EXPECT_EQ(testing_support::read_text(folder_ / name), text_);
    });
  }
  for (std::thread& peer : peers) peer.join();
}

TEST_F(SeedTest, StrangersGetNothing) {
  serve(kLong);
  EXPECT_NE(fetch(std::string(64, 'u')), "");
  EXPECT_EQ(testing_support::read_text(folder_ / "f"), "");
  EXPECT_EQ(fetch(kToken), "");
}

TEST_F(SeedTest, EndsWhenItsTimeIsOver) {
  serve(std::chrono::milliseconds(1));
  thread_.join();
}

TEST_F(SeedTest, EndsWithTheAgent) {
  serve(kLong);
  ends_.second.reset();
  thread_.join();
}

// The seed of a process that then ends is no child of anyone here, so it is watched by its port.
TEST_F(SeedTest, IsAProcessThatOutlivesAnExecAndEndsWithTheAgent) {
  base::FdPair port = *base::make_pipe();
  base::FdPair held = *base::make_pipe();
  const pid_t agent = ::fork();
  if (agent == 0) {
    held.second.reset();  // which the seed would hold, too
    int found = 0;
    const bool is_started = start_seed(path_, kToken, found).empty();
    (void)!::write(port.second.get(), &found, is_started ? sizeof found : 0);
    ::dup2(held.first.get(), STDIN_FILENO);
    ::execlp("cat", "cat", nullptr);  // waits for the end of its input
    ::_exit(127);
  }
  port.second.reset();
  ASSERT_EQ(::read(port.first.get(), &port_, sizeof port_), static_cast<ssize_t>(sizeof port_));
  EXPECT_EQ(fetch(kToken), "");
  EXPECT_EQ(testing_support::read_text(folder_ / "f"), text_);
  held.second.reset();
  ASSERT_EQ(::waitpid(agent, nullptr, 0), agent);
  const auto end = std::chrono::steady_clock::now() + kLong;
  while (fetch(kToken).empty() && std::chrono::steady_clock::now() < end) {
  }
  EXPECT_EQ(fetch(kToken), "cannot connect: Connection refused");
}

}  // namespace
}  // namespace muster::agent::seed_test
