#include "agent/link/launcher_stream.h"

#include <signal.h>
#include <sys/socket.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/net.h"
#include "proto/control_key.h"
#include "tests/unit/support/control_peer.h"
#include "tests/unit/support/turn_until.h"

namespace muster::agent::launcher_stream_test {
namespace {

using proto::ControlKind;
using testing_support::ControlPeer;
using testing_support::turn_until;

// A socket as a channel.
class SocketChannel final : public base::ByteChannel {
 public:
  explicit SocketChannel(base::UniqueFd fd) : fd_(std::move(fd)) {}
  long read(char* data, std::size_t size) override { return result(::recv(fd_.get(), data, size, MSG_DONTWAIT)); }
  long write(const char* data, std::size_t size) override {
    return result(::send(fd_.get(), data, size, MSG_DONTWAIT | MSG_NOSIGNAL));
  }

 private:
  static long result(ssize_t n) { return n >= 0 ? static_cast<long>(n) : errno == EAGAIN ? kLater : kBroken; }
  base::UniqueFd fd_;
};

class LauncherStreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);
    pair_ = *base::make_socketpair(SOCK_STREAM);
    LauncherStream::Events events;
    events.on_up = [this] { is_up_ = true; };
    events.on_message = [this](const v1::LauncherMessage& message) { got_.push_back(message.stop_ranks().reason()); };
    events.on_end = [this](const base::Status& why, bool by_peer) {
      ends_.push_back(why.message());
      is_by_peer_ = by_peer;
    };
    stream_ = std::make_shared<LauncherStream>(loop_, key(), std::move(events));
  }
  ~LauncherStreamTest() override {
    if (launcher_.joinable()) launcher_.join();
  }
  static base::TlsKey key() { return proto::control_key("abcdefgh", "token"); }
  // Plays the launcher on a thread, after the handshake.
  void play(std::function<void(ControlPeer&)> speak) {
    launcher_ = std::thread([this, speak = std::move(speak)] {
      ControlPeer peer(std::move(pair_.first), *base::TlsContext::server({key()}));
      if (peer.handshake()) speak(peer);
    });
  }
  static v1::LauncherMessage message(const std::string& text) {
    v1::LauncherMessage one;
    one.mutable_stop_ranks()->set_reason(text);
    return one;
  }
  static v1::AgentMessage notice(const std::string& text) {
    v1::AgentMessage one;
    one.mutable_notice()->set_text(text);
    return one;
  }

  base::Loop loop_;
  base::FdPair pair_;
  std::thread launcher_;
  bool is_up_ = false;
  bool is_by_peer_ = false;
  std::vector<std::string> got_;
  std::vector<std::string> ends_;
  std::shared_ptr<LauncherStream> stream_;
};

TEST_F(LauncherStreamTest, CarriesMessagesAndReportsTheEnd) {
  std::string answer;
  play([&](ControlPeer& peer) {
    for (const char* text : {"one", "two"}) EXPECT_TRUE(peer.send(message(text)));
    answer = peer.next_message<v1::AgentMessage>()->notice().text();
    EXPECT_TRUE(peer.send_frame(ControlKind::kEnd, "that was all"));
  });
  stream_->use(std::move(pair_.second));
  turn_until(loop_, [this] { return got_.size() == 2; });
  stream_->send(notice("hello"));
  stream_->flush();
  EXPECT_EQ(stream_->unwritten(), 0U);
  turn_until(loop_, [this] { return !ends_.empty(); });
  launcher_.join();
  EXPECT_TRUE(is_up_);
  EXPECT_EQ(answer, "hello");
  EXPECT_EQ(got_, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(ends_, (std::vector<std::string>{"that was all"}));
  EXPECT_TRUE(is_by_peer_);
}

TEST_F(LauncherStreamTest, WorksOverAChannel) {
  play([](ControlPeer& peer) {
    EXPECT_TRUE(peer.send(message("one")));
    const auto answer = peer.next_message<v1::AgentMessage>();
    EXPECT_TRUE(answer && answer->notice().text() == "hello");
  });
  const base::Timer ready = loop_.on_readable(pair_.second.get(), [this] { stream_->channel_ready(); });
  ASSERT_TRUE(base::set_nonblocking(pair_.second.get(), true).ok());
  stream_->use(std::make_unique<SocketChannel>(base::UniqueFd(::dup(pair_.second.get()))));
  turn_until(loop_, [this] { return got_.size() == 1; });
  stream_->send(notice("hello"));
  stream_->flush();
  turn_until(loop_, [this] { return !ends_.empty(); });
}

TEST_F(LauncherStreamTest, SendsWhatCameBeforeItsLeave) {
  std::vector<std::string> texts;
  play([&](ControlPeer& peer) {
    while (const auto one = peer.next_message<v1::AgentMessage>()) texts.push_back(one->notice().text());
  });
  stream_->use(std::move(pair_.second));
  turn_until(loop_, [this] { return is_up_; });
  for (const char* text : {"one", "two"}) stream_->send(notice(text));
  stream_->leave();
  stream_.reset();
  launcher_.join();
  EXPECT_EQ(texts, (std::vector<std::string>{"one", "two"}));
  EXPECT_TRUE(ends_.empty()) << "no event comes after leave()";
}

TEST_F(LauncherStreamTest, ReportsAWrongKey) {
  launcher_ = std::thread([this] {
    ControlPeer peer(std::move(pair_.first), *base::TlsContext::server({{key().identity, std::string(64, '0')}}));
    EXPECT_FALSE(peer.handshake());
  });
  stream_->use(std::move(pair_.second));
  turn_until(loop_, [this] { return !ends_.empty(); });
  EXPECT_FALSE(is_up_);
}

}  // namespace
}  // namespace muster::agent::launcher_stream_test
