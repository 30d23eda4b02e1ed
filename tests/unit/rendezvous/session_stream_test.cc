#include "rendezvous/session_stream.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <vector>

namespace muster::rendezvous::session_stream_test {
namespace {

class SessionStreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pair = base::make_socketpair(SOCK_STREAM);
    ASSERT_TRUE(pair.ok());
    peer_ = std::move(pair->second);
    stream_.emplace(std::move(pair->first), 1 << 20);
  }

  base::Result<bool> read() {
    return stream_->read([this](SessionMessage message) {
      got_.push_back(std::move(message));
      return refusal_;
    });
  }
  void peer_sends(std::string_view bytes) {
    ASSERT_TRUE(base::write_all_blocking(peer_.get(), bytes.data(), bytes.size()).ok());
  }

  std::optional<SessionStream> stream_;
  base::UniqueFd peer_;
  std::vector<SessionMessage> got_;
  base::Status refusal_;
};

TEST_F(SessionStreamTest, ReadsWholeMessagesAndTheEnd) {
  EXPECT_TRUE(read().value());  // nothing is there
  const std::string frame = encode_session(SessionWait{1, "key"});
  peer_sends(frame + frame.substr(0, 6));
  EXPECT_TRUE(read().value());
  EXPECT_EQ(got_.size(), 1U);
  peer_sends(frame.substr(6));
  peer_.reset();
  EXPECT_FALSE(read().value());
  EXPECT_EQ(got_.size(), 2U);
}

TEST_F(SessionStreamTest, AnEndInsideOfAMessageIsAnError) {
  peer_sends(encode_session(SessionWait{1, "key"}).substr(0, 6));
  peer_.reset();
  EXPECT_EQ(read().status().code(), base::Code::kUnavailable);
}

TEST_F(SessionStreamTest, WhatIsNoMessageAndWhatIsRefusedEndIt) {
  refusal_ = base::error(base::Code::kInvalidArgument, "refused");
  peer_sends(encode_session(SessionGoodbye{}) + encode_session(SessionGoodbye{}));
  EXPECT_EQ(read().status().message(), "refused");
  EXPECT_EQ(got_.size(), 1U);
  refusal_ = base::ok_status();
  peer_sends("GET / HTTP/1.1\r\n");
  EXPECT_EQ(read().status().code(), base::Code::kInvalidArgument);
}

TEST_F(SessionStreamTest, KeepsWhatTheSocketDoesNotTakeUpToABound) {
  const SessionPut put{1, "key", std::string(100'000, 'v')};
  std::size_t sent = 0;
  base::Status status;
  while ((status = stream_->send(put)).ok()) ++sent;
  EXPECT_EQ(status.code(), base::Code::kResourceExhausted);
  EXPECT_TRUE(stream_->wants_write());
  // All of it arrives, whole, once the peer reads.
  SessionReader reader;
  std::size_t received = 0;
  std::vector<char> bytes(64 << 10);
  while (received < sent) {
    ASSERT_TRUE(stream_->flush().ok());
    const ssize_t count = ::read(peer_.get(), bytes.data(), bytes.size());
    ASSERT_GT(count, 0);
    reader.append({bytes.data(), static_cast<std::size_t>(count)});
    for (;;) {
      const auto message = reader.next();
      ASSERT_TRUE(message.ok());
      if (!*message) break;
      EXPECT_TRUE(std::get<SessionPut>(**message) == put);
      ++received;
    }
  }
  EXPECT_FALSE(stream_->wants_write());
  peer_.reset();
  EXPECT_EQ(stream_->send(put).code(), base::Code::kUnavailable);
}

}  // namespace
}  // namespace muster::rendezvous::session_stream_test
