// The fetcher beside real servers, and beside peers that lie or hang.
#include "agent/stage/block_fetcher.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <condition_variable>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/stage/block_server.h"
#include "tests/unit/agent/stage/block_fixture.h"

namespace muster::agent::block_fetcher_test {
namespace {

using namespace block_fixture;
using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kSecret(32, 's');

base::TlsKey key() {
  return {"stage", kSecret};
}

BlockSource source(const std::string& name, std::uint16_t port) {
  return {name, *base::IpAddress::parse("127.0.0.1"), port};
}

// A peer that takes one connection, reads `requests` requests, answers with `replies`, and stays.
class FakePeer {
 public:
  FakePeer(std::size_t requests, std::string replies)
      : listener_(*base::listen_any(0, 4)),
        quit_(::eventfd(0, EFD_CLOEXEC)),
        thread_([this, requests, replies] { serve(requests, replies); }) {}
  ~FakePeer() {
    (void)::eventfd_write(quit_.get(), 1);
    thread_.join();
  }
  std::uint16_t port() const { return *base::local_port(listener_.get()); }

 private:
  void serve(std::size_t requests, const std::string& replies) {
    block_sigpipe();
    pollfd polled[] = {{listener_.get(), POLLIN, 0}, {quit_.get(), POLLIN, 0}};
    (void)::poll(polled, 2, -1);
    if (polled[1].revents != 0) return;
    base::TlsStream stream(*base::TlsContext::server({key()}),
                           base::UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    const auto deadline = base::monotonic_now() + 20s;
    if (!stream.handshake_blocking(deadline, quit_.get()).ok()) return;
    std::string bytes(requests * kBlockRequestSize, '\0');
    if (!stream.read_exactly_blocking(bytes.data(), bytes.size(), deadline, quit_.get()).ok()) return;
    (void)stream.write_all_blocking(replies.data(), replies.size(), deadline, quit_.get());
    polled[1].revents = 0;
    (void)::poll(&polled[1], 1, -1);
  }

  base::UniqueFd listener_;
  base::UniqueFd quit_;
  std::thread thread_;
};

// A host that has the files of `table`, and serves them.
class RealPeer {
 public:
  explicit RealPeer(std::shared_ptr<BlockTable> table) : table_(std::move(table)) {
    table_->notify({server_->wake_fd()});
    thread_ = std::thread([this] { server_->serve(*table_, stop_); });
  }
  ~RealPeer() {
    server_->interrupt();
    thread_.join();
  }
  std::uint16_t port() const { return server_->port(); }

 private:
  std::shared_ptr<BlockTable> table_;
  std::unique_ptr<BlockServer> server_ = *BlockServer::listen(key());
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

class BlockFetcherTest : public BlockFolderTest {
 protected:
  // Fetches until the end. What is asked of the launcher is put at once.
  BlockReport fetch(const std::vector<BlockSource>& sources, BlockFetchLimits limits = {}) {
    list(*blocks_, {text_});
    BlockReport last;
    auto fetcher = *BlockFetcher::make(
        blocks_, key(),
        [&](const BlockReport& report) {
          last = report;
          notes_.insert(notes_.end(), report.notes.begin(), report.notes.end());
          for (const BlockId id : report.wants) {
            wants_.push_back(id);
            EXPECT_TRUE(blocks_->put(id, block_of(text_, id.block)).ok());
          }
        },
        limits);
    blocks_->notify({fetcher->wake_fd()});
    fetcher->fetch(sources, stop_);
    return last;
  }
  // A table of a host that has all of it.
  std::shared_ptr<BlockTable> full(const std::string& below) {
    put(below + "/f0", text_);
    return table_of(below, std::make_shared<std::vector<StageItem>>(std::vector<StageItem>{file("f0", text_)}), {});
  }
  static std::string block_reply(BlockId id, const std::string& bytes) {
    std::string reply;
    append_block_reply({.id = id, .size = static_cast<std::uint32_t>(bytes.size())}, reply);
    return reply + bytes;
  }

  const std::string text_ = "0123456789abcdefghijxyz";
  const std::shared_ptr<BlockTable> blocks_ = table("in", {text_});
  std::atomic<bool> stop_ = false;
  std::vector<BlockId> wants_;
  std::vector<std::string> notes_;
};

TEST_F(BlockFetcherTest, TakesAllFromAPeer) {
  RealPeer peer(full("peer"));
  const BlockReport report = fetch({source("n1", peer.port())});
  EXPECT_TRUE(report.is_complete);
  EXPECT_EQ(report.peer_bytes, text_.size());
  EXPECT_EQ(report.done_blocks, 3U);
  EXPECT_EQ(report.changed_files, 1U);
  EXPECT_EQ(content("in/f0"), text_);
  EXPECT_THAT(wants_, IsEmpty());
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(BlockFetcherTest, WithoutSourcesAllComesFromTheLauncher) {
  const BlockReport report = fetch({});
  EXPECT_TRUE(report.is_complete);
  EXPECT_EQ(report.peer_bytes, 0U);
  EXPECT_THAT(wants_, ElementsAre(BlockId{0, 0}, BlockId{0, 1}, BlockId{0, 2}));
}

TEST_F(BlockFetcherTest, AWrongBlockIsRefusedAndComesFromAnotherSource) {
  FakePeer liar(3, block_reply({0, 0}, "0123456789") + block_reply({0, 1}, "abcdefghiX"));
  RealPeer peer(full("peer"));
  const BlockReport report = fetch({source("liar", liar.port()), source("n2", peer.port())});
  EXPECT_TRUE(report.is_complete);
  EXPECT_EQ(content("in/f0"), text_);
  EXPECT_THAT(notes_, ElementsAre("blocks come from n2 instead of liar: block 1 of f0 arrived with other content"));
}

TEST_F(BlockFetcherTest, APeerThatSendsSomethingElseIsLeft) {
  FakePeer liar(3, std::string(64, '\xff'));
  EXPECT_TRUE(fetch({source("liar", liar.port())}).is_complete);
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("from the launcher instead of liar: no reply of a block has kind")));
  EXPECT_EQ(wants_.size(), 3U);
}

TEST_F(BlockFetcherTest, ABlockThatWasNotAskedForIsRefused) {
  FakePeer liar(3, block_reply({0, 7}, "0123456789"));
  EXPECT_TRUE(fetch({source("liar", liar.port())}).is_complete);
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("it sent a block that was not asked for")));
}

TEST_F(BlockFetcherTest, ASilentPeerIsLeft) {
  FakePeer silent(3, "");
  EXPECT_TRUE(fetch({source("n1", silent.port())}, {.silence = 100ms}).is_complete);
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("from the launcher instead of n1: it sent nothing for")));
}

TEST_F(BlockFetcherTest, ASlowPeerIsLeft) {
  FakePeer slow(3, block_reply({0, 0}, "0123456789").substr(0, 20));
  EXPECT_TRUE(fetch({source("n1", slow.port())}, {.silence = 20s, .block = 100ms}).is_complete);
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("it is too slow")));
}

TEST_F(BlockFetcherTest, APeerThatDoesNotAnswerTheHandshakeIsLeft) {
  const base::UniqueFd deaf = *base::listen_any(0, 4);
  EXPECT_TRUE(fetch({source("n1", *base::local_port(deaf.get()))}, {.connect = 100ms}).is_complete);
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("no answer in time")));
}

TEST_F(BlockFetcherTest, APeerThatRefusesIsLeft) {
  std::string refusal;
  append_block_reply({.kind = BlockReplyKind::kRefused}, refusal);
  FakePeer peer(3, refusal);
  EXPECT_TRUE(fetch({source("n1", peer.port())}).is_complete);
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("it does not have the files")));
}

TEST_F(BlockFetcherTest, ADiskErrorIsFinal) {
  RealPeer peer(full("peer"));
  put("in/f0/folder", "the name is taken by a folder");
  const BlockReport report = fetch({source("n1", peer.port())});
  EXPECT_FALSE(report.is_complete);
  EXPECT_THAT(report.problem.message(), HasSubstr("in/f0"));
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(BlockFetcherTest, AnInterruptEndsIt) {
  FakePeer silent(3, "");
  list(*blocks_, {text_});
  auto fetcher = *BlockFetcher::make(blocks_, key(), [](const BlockReport&) {});
  std::thread thread([&] { fetcher->fetch({source("n1", silent.port())}, stop_); });
  stop_ = true;
  fetcher->interrupt();
  thread.join();
  EXPECT_FALSE(blocks_->is_complete());
}

}  // namespace
}  // namespace muster::agent::block_fetcher_test
