#include "agent/stage/block_server.h"

#include <sys/socket.h>

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/net.h"
#include "tests/unit/agent/stage/block_fixture.h"

namespace muster::agent::block_server_test {
namespace {

using namespace block_fixture;
using namespace std::chrono_literals;

class BlockServerTest : public BlockFolderTest {
 protected:
  BlockServerTest() {
    block_sigpipe();
    blocks_->notify({server_->wake_fd()});
    list(*blocks_, {text_});
    while (const auto id = blocks_->next_to_check()) (void)blocks_->check(*id);
    thread_ = std::thread([this] { server_->serve(*blocks_, stop_); });
  }
  ~BlockServerTest() override {
    server_->interrupt();
    thread_.join();
  }

  base::UniqueFd connect() const {
    const base::SockAddr address = base::make_sockaddr(*base::IpAddress::parse("127.0.0.1"), server_->port());
    base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), address.get(), address.size), 0);
    return fd;
  }
  base::TlsStream client(const std::string& secret) const {
    return {*base::TlsContext::client({"stage", secret}), connect()};
  }
  static base::MonotonicTime soon() { return base::monotonic_now() + 20s; }
  static void ask(base::TlsStream& stream, BlockId id) {
    std::string bytes;
    append_block_request(id, bytes);
    ASSERT_TRUE(stream.write_all_blocking(bytes.data(), bytes.size(), soon(), -1).ok());
  }
  static BlockReply reply(base::TlsStream& stream, std::string& content) {
    std::string bytes(kBlockReplySize, '\0');
    EXPECT_TRUE(stream.read_exactly_blocking(bytes.data(), bytes.size(), soon(), -1).ok());
    const auto parsed = parse_block_reply(bytes);
    EXPECT_TRUE(parsed.ok());
    content.resize(parsed->size);
    EXPECT_TRUE(stream.read_exactly_blocking(content.data(), content.size(), soon(), -1).ok());
    return *parsed;
  }

  const std::string secret_ = std::string(32, 's');
  const std::string text_ = "0123456789abcdefghijxyz";
  const std::shared_ptr<BlockTable> blocks_ = table("in", {text_});
  const std::unique_ptr<BlockServer> server_ = *BlockServer::listen({"stage", secret_});
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

TEST_F(BlockServerTest, ServesABlockAsSoonAsItIsThere) {
  base::TlsStream stream = client(secret_);
  ASSERT_TRUE(stream.handshake_blocking(soon(), -1).ok());
  ask(stream, {0, 0});
  ask(stream, {0, 2});
  std::string bytes;
  // Nothing is there yet, so the server only shows that it lives.
  EXPECT_EQ(reply(stream, bytes).kind, BlockReplyKind::kAlive);
  ASSERT_TRUE(blocks_->put({0, 2}, "xyz").ok());
  BlockReply served = reply(stream, bytes);
  while (served.kind == BlockReplyKind::kAlive) served = reply(stream, bytes);
  EXPECT_EQ(served.id, (BlockId{0, 2}));
  EXPECT_EQ(bytes, "xyz");
}

TEST_F(BlockServerTest, RefusesWhatItWillNeverHave) {
  base::TlsStream stream = client(secret_);
  ASSERT_TRUE(stream.handshake_blocking(soon(), -1).ok());
  ask(stream, {9, 0});
  std::string bytes;
  EXPECT_EQ(reply(stream, bytes).kind, BlockReplyKind::kRefused);
}

TEST_F(BlockServerTest, AStrangerWithoutTheKeyGetsNothing) {
  base::TlsStream stream = client(std::string(32, 'x'));
  EXPECT_FALSE(stream.handshake_blocking(soon(), -1).ok());
}

TEST_F(BlockServerTest, APeerThatAsksForTooMuchIsCutOff) {
  base::TlsStream stream = client(secret_);
  ASSERT_TRUE(stream.handshake_blocking(soon(), -1).ok());
  std::string bytes;
  for (std::size_t i = 0; i <= BlockServer::kMostAsked + 1; ++i) append_block_request({0, 0}, bytes);
  ASSERT_TRUE(stream.write_all_blocking(bytes.data(), bytes.size(), soon(), -1).ok());
  char byte = 0;
  base::Status status = base::ok_status();
  while (status.ok()) status = stream.read_exactly_blocking(&byte, 1, soon(), -1);
  EXPECT_EQ(status.code(), base::Code::kUnavailable);
}

}  // namespace
}  // namespace muster::agent::block_server_test
