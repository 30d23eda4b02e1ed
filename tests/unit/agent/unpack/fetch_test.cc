#include "agent/unpack/fetch.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::fetch_test {
namespace {

// Accepts one connection on 127.0.0.1, and answers the token with a text. It then holds the connection, or ends it.
class PlayedSeed {
 public:
  explicit PlayedSeed(std::string answer, bool holds = false) {
    listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
    thread_ = std::thread([this, answer, holds] {
      const base::UniqueFd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      char bytes[64];
      token.assign(bytes, static_cast<std::size_t>(std::max<ssize_t>(0, ::recv(peer.get(), bytes, 64, MSG_WAITALL))));
      (void)base::write_all_blocking(peer.get(), answer.data(), answer.size());
      if (holds) (void)::recv(peer.get(), bytes, 1, 0);  // until the other side ends
    });
  }
  ~PlayedSeed() { join(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }

  int port = 0;
  std::string token;

 private:
  base::UniqueFd listener_;
  std::thread thread_;
};

const std::string kToken(64, 't');

class FetchTest : public ::testing::Test {
 protected:
  Problem fetch(int port, std::size_t size, const FetchLimits& limits = {}) {
    const base::UniqueFd fd(::open((folder_ / "f").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    HashedFile file(fd.get(), size);
    return fetch_agent("127.0.0.1", port, kToken, file, limits);
  }

  testing_support::TempDir folder_;
};

TEST_F(FetchTest, SendsTheTokenAndWritesTheFile) {
  PlayedSeed seed("the agent");
  EXPECT_EQ(fetch(seed.port, 9), "");
  seed.join();
  EXPECT_EQ(seed.token, kToken);
  EXPECT_EQ(testing_support::read_text(folder_ / "f"), "the agent");
}

TEST_F(FetchTest, ReportsASeedThatEndsEarly) {
  PlayedSeed seed("the ag");
  EXPECT_EQ(fetch(seed.port, 9), "the sender has gone");
}

TEST_F(FetchTest, GivesUpOnASlowSeed) {
  PlayedSeed seed("the ag", true);
  EXPECT_EQ(fetch(seed.port, 9, {.silence = std::chrono::milliseconds(1)}), "nothing arrived for 1 ms");
}

TEST_F(FetchTest, GivesUpWhenTheWholeTimeIsOver) {
  PlayedSeed seed("the agent", true);
  EXPECT_EQ(fetch(seed.port, 99, {.whole = std::chrono::milliseconds(-1)}), "it takes more than -1 ms");
}

TEST_F(FetchTest, ReportsARefusedConnection) {
  int port = 0;
  {
    const PlayedSeed seed("");
    port = seed.port;
    EXPECT_EQ(fetch(port, 1), "the sender has gone");
  }
  EXPECT_EQ(fetch(port, 1), "cannot connect: Connection refused");
}

TEST_F(FetchTest, TakesAddressesOnly) {
  const base::UniqueFd fd(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  HashedFile file(fd.get(), 1);
  EXPECT_EQ(fetch_agent("localhost", 1, kToken, file), "the address is wrong");
}

}  // namespace
}  // namespace muster::agent::fetch_test
