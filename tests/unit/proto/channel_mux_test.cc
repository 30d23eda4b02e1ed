#include "proto/channel_mux.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <random>
#include <thread>

#include <gtest/gtest.h>

namespace muster::proto::channel_mux_test {
namespace {

template <typename T>
T must(base::Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) std::abort();
  return std::move(result).value();
}

TEST(MuxFrame, EveryKindComesBackAsItWas) {
  const MuxFrame cases[] = {{MuxKind::kData, 1, 0, "payload"},
                            {MuxKind::kCredit, 2, kMuxWindow, {}},
                            {MuxKind::kEof, 0, 0, {}},
                            {MuxKind::kReset, 3, 0, {}}};
  for (const MuxFrame& frame : cases) {
    std::string bytes;
    append_mux_frame(frame, &bytes);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const auto parse = parse_mux_frame(std::string_view(bytes).substr(0, size), 4);
      ASSERT_TRUE(parse.ok());
      EXPECT_FALSE(parse->is_complete);
    }
    bytes += "next";
    const auto parse = parse_mux_frame(bytes, 4);
    ASSERT_TRUE(parse.ok()) << parse.status();
    ASSERT_TRUE(parse->is_complete);
    EXPECT_EQ(parse->size, bytes.size() - 4);
    EXPECT_EQ(parse->frame.kind, frame.kind);
    EXPECT_EQ(parse->frame.stream, frame.stream);
    EXPECT_EQ(parse->frame.credit, frame.credit);
    EXPECT_EQ(parse->frame.payload, frame.payload);
  }
}

TEST(MuxFrame, MalformedOnesAreRefused) {
  const auto accepted = [](std::uint32_t length, char kind, char stream, char padding) {
    std::string bytes;
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(length >> shift));
    bytes += {kind, stream, padding, 0};
    return parse_mux_frame(bytes, 2).ok();
  };
  EXPECT_TRUE(accepted(kMaxMuxPayload, 1, 1, 0));
  EXPECT_FALSE(accepted(kMaxMuxPayload + 1, 1, 1, 0));
  EXPECT_FALSE(accepted(0, 1, 1, 0));  // empty data
  EXPECT_FALSE(accepted(1, 1, 2, 0));  // no such stream
  EXPECT_FALSE(accepted(1, 1, 1, 1));  // padding
  EXPECT_FALSE(accepted(1, 5, 1, 0));  // no such kind
  EXPECT_FALSE(accepted(1, 0, 1, 0));
  EXPECT_FALSE(accepted(kMuxWindow + 1, 2, 1, 0));  // more than a window
  EXPECT_FALSE(accepted(1, 3, 1, 0));               // EOF with a length
}

// Two muxes joined by a socketpair; the test holds the far ends of `streams` streams on each side.
class MuxPair : public ::testing::Test {
 protected:
  void SetUp() override { signal(SIGPIPE, SIG_IGN); }

  void start(std::size_t streams) {
    base::FdPair channel = must(base::make_socketpair(SOCK_STREAM));
    a_ = make(std::move(channel.first), streams, &a_ends_, &a_closed_);
    b_ = make(std::move(channel.second), streams, &b_ends_, &b_closed_);
  }
  static std::unique_ptr<Mux> make(base::UniqueFd channel, std::size_t streams, std::vector<base::UniqueFd>* ends,
                                   std::promise<base::Status>* closed) {
    std::vector<base::UniqueFd> locals;
    for (std::size_t i = 0; i < streams; ++i) {
      base::FdPair pair = must(base::make_socketpair(SOCK_STREAM));
      locals.push_back(std::move(pair.first));
      ends->push_back(std::move(pair.second));
    }
    base::UniqueFd out(dup(channel.get()));
    return std::make_unique<Mux>(std::move(channel), std::move(out), std::move(locals),
                                 [closed](base::Status status) { closed->set_value(std::move(status)); });
  }
  static void put(const base::UniqueFd& fd, std::string_view text) {
    EXPECT_TRUE(base::write_all_blocking(fd.get(), text.data(), text.size()).ok());
  }
  static std::string get(const base::UniqueFd& fd, std::size_t size) {
    std::string text(size, '\0');
    EXPECT_TRUE(must(base::read_exactly_blocking(fd.get(), text.data(), size)));
    return text;
  }
  static bool is_at_end(const base::UniqueFd& fd) {
    char byte = 0;
    return read(fd.get(), &byte, 1) == 0;
  }

  std::promise<base::Status> a_closed_;
  std::promise<base::Status> b_closed_;
  std::vector<base::UniqueFd> a_ends_;
  std::vector<base::UniqueFd> b_ends_;
  std::unique_ptr<Mux> a_;
  std::unique_ptr<Mux> b_;
};

TEST_F(MuxPair, StreamsAreSeparateAndBothWays) {
  start(3);
  put(a_ends_[0], "zero");
  put(a_ends_[2], "two");
  put(b_ends_[0], "back");
  EXPECT_EQ(get(b_ends_[2], 3), "two");
  EXPECT_EQ(get(b_ends_[0], 4), "zero");
  EXPECT_EQ(get(a_ends_[0], 4), "back");
}

TEST_F(MuxPair, MegabytesArriveUnharmedOnAllStreamsAtOnce) {
  start(2);
  constexpr std::size_t kSize = 20u << 20;
  const auto pattern = [](std::size_t stream, std::size_t i) {
    return static_cast<char>((i * 31 + i / 7919 + stream) & 0xff);
  };
  std::vector<std::thread> threads;
  for (std::size_t s = 0; s < 2; ++s) {
    for (auto* ends : {&a_ends_, &b_ends_}) {
      auto* other = ends == &a_ends_ ? &b_ends_ : &a_ends_;
      threads.emplace_back([=] {
        std::string text(kSize, '\0');
        for (std::size_t i = 0; i < kSize; ++i) text[i] = pattern(s, i);
        put((*ends)[s], text);
      });
      threads.emplace_back([=] {
        const std::string text = get((*other)[s], kSize);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < kSize; ++i) wrong += text[i] != pattern(s, i);
        EXPECT_EQ(wrong, 0U);
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(MuxPair, ABlockedStreamDoesNotDelayAnother) {
  start(2);
  // Stream 1: nobody reads on the other side; write until everything on the way is full.
  ASSERT_TRUE(base::set_nonblocking(a_ends_[1].get(), true).ok());
  const std::string block(64 * 1024, 'x');
  std::size_t stuck = 0;
  pollfd writable{a_ends_[1].get(), POLLOUT, 0};
  while (poll(&writable, 1, 200) == 1) {
    const ssize_t sent = write(a_ends_[1].get(), block.data(), block.size());
    if (sent > 0) stuck += static_cast<std::size_t>(sent);
  }
  EXPECT_GE(stuck, std::size_t{kMuxWindow});
  EXPECT_LT(stuck, std::size_t{8} << 20);  // bounded
  for (int i = 0; i < 100; ++i) {
    put(a_ends_[0], "ping");
    EXPECT_EQ(get(b_ends_[0], 4), "ping");
    put(b_ends_[0], "pong");
    EXPECT_EQ(get(a_ends_[0], 4), "pong");
  }
  EXPECT_EQ(get(b_ends_[1], stuck), std::string(stuck, 'x'));  // and nothing of it was lost
}

TEST_F(MuxPair, OneDirectionCanEndAlone) {
  start(1);
  put(a_ends_[0], "last");
  shutdown(a_ends_[0].get(), SHUT_WR);
  EXPECT_EQ(get(b_ends_[0], 4), "last");
  EXPECT_TRUE(is_at_end(b_ends_[0]));
  put(b_ends_[0], "still open");
  EXPECT_EQ(get(a_ends_[0], 10), "still open");
}

TEST_F(MuxPair, AClosedReceiverStopsTheSenderOfThatStreamOnly) {
  start(2);
  b_ends_[1].reset();
  const std::string block(64 * 1024, 'x');
  while (write(a_ends_[1].get(), block.data(), block.size()) > 0) {
  }
  EXPECT_TRUE(errno == EPIPE || errno == ECONNRESET);
  put(a_ends_[0], "fine");
  EXPECT_EQ(get(b_ends_[0], 4), "fine");
}

TEST_F(MuxPair, TheEndOfTheChannelIsSeenByEverybody) {
  start(2);
  a_->stop();
  EXPECT_TRUE(is_at_end(a_ends_[0]));
  EXPECT_TRUE(is_at_end(b_ends_[0]));
  EXPECT_TRUE(is_at_end(b_ends_[1]));
  EXPECT_TRUE(b_closed_.get_future().get().ok());
  EXPECT_EQ(a_closed_.get_future().wait_for(std::chrono::seconds(0)),
            std::future_status::timeout);  // stop() is no news
}

TEST_F(MuxPair, JunkOnTheChannelEndsIt) {
  base::FdPair channel = must(base::make_socketpair(SOCK_STREAM));
  a_ = make(std::move(channel.first), 1, &a_ends_, &a_closed_);
  put(channel.second, "Welcome to host n1, last login yesterday\n");
  EXPECT_EQ(a_closed_.get_future().get().code(), base::Code::kInvalidArgument);
  EXPECT_TRUE(is_at_end(a_ends_[0]));
}

TEST_F(MuxPair, MoreDataThanCreditEndsIt) {
  base::FdPair channel = must(base::make_socketpair(SOCK_STREAM));
  a_ = make(std::move(channel.first), 1, &a_ends_, &a_closed_);
  std::string frames;
  const std::string payload(kMaxMuxPayload, 'x');
  for (std::size_t sent = 0; sent < 16u << 20; sent += payload.size()) {
    append_mux_frame({MuxKind::kData, 0, 0, payload}, &frames);
  }
  (void)base::write_all_blocking(channel.second.get(), frames.data(), frames.size());  // cut off on the way: EPIPE
  EXPECT_EQ(a_closed_.get_future().get().code(), base::Code::kInvalidArgument);
}

}  // namespace
}  // namespace muster::proto::channel_mux_test
