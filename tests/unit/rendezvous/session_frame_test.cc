#include "rendezvous/session_frame.h"

#include <gtest/gtest.h>

#include <vector>

namespace muster::rendezvous::session_frame_test {
namespace {

std::vector<SessionMessage> one_of_each() {
  return {SessionHello{1, 1'000'000},
          SessionPut{7, "member/3", std::string("\0\1\2", 3)},
          SessionWait{8, ""},
          SessionCancel{8},
          SessionGoodbye{},
          SessionWelcome{1, std::string(kSessionSecretBytes, 's'), 2},
          SessionPutDone{7, base::Code::kResourceExhausted, "full"},
          SessionValue{8, base::Code::kOk, ""},
          SessionEnded{-1, true, "was killed by signal 9 (SIGKILL)"},
          SessionSilence{3, true}};
}

std::string code_of(std::string_view bytes) {
  SessionReader reader;
  reader.append(bytes);
  const auto message = reader.next();
  if (!message.ok()) return std::string(base::code_name(message.status().code()));
  return message->has_value() ? "message" : "more";
}

TEST(SessionFrameTest, ComesOutAsItWentInInPiecesOfAnySize) {
  std::string all;
  for (const SessionMessage& message : one_of_each()) all += encode_session(message);
  for (std::size_t piece = 1; piece <= all.size(); ++piece) {
    SessionReader reader;
    std::vector<SessionMessage> read;
    for (std::size_t at = 0; at < all.size(); at += piece) {
      reader.append(std::string_view(all).substr(at, piece));
      for (;;) {
        auto message = reader.next();
        ASSERT_TRUE(message.ok()) << message.status();
        if (!*message) break;
        read.push_back(std::move(**message));
      }
    }
    ASSERT_EQ(read.size(), one_of_each().size());
    EXPECT_TRUE(read == one_of_each()) << piece;
    EXPECT_TRUE(reader.is_empty());
  }
}

TEST(SessionFrameTest, SaysHowMuchIsMissing) {
  const std::string frame = encode_session(SessionWait{1, "key"});
  SessionReader reader;
  for (const char byte : frame) {
    EXPECT_GT(reader.missing(), 0U);
    EXPECT_FALSE(reader.next().value().has_value());
    reader.append(std::string_view(&byte, 1));
  }
  EXPECT_EQ(reader.missing(), 0U);
  EXPECT_TRUE(reader.next().value().has_value());
}

TEST(SessionFrameTest, RefusesWhatIsNoFrame) {
  EXPECT_EQ(code_of(std::string(4, '\0')), "INVALID_ARGUMENT");             // of no bytes
  EXPECT_EQ(code_of(std::string("\xff\xff\xff\xff")), "INVALID_ARGUMENT");  // before any of them has come
  EXPECT_EQ(code_of("GET / HTTP/1.1\r\n"), "INVALID_ARGUMENT");
  for (const SessionMessage& message : one_of_each()) {
    const std::string frame = encode_session(message);
    EXPECT_EQ(code_of(frame), "message");
    std::string longer = frame + "x";
    ++longer[0];
    EXPECT_EQ(code_of(longer), "INVALID_ARGUMENT") << message.index();
    if (frame.size() == 5) continue;
    std::string shorter = frame.substr(0, frame.size() - 1);
    --shorter[0];
    EXPECT_EQ(code_of(shorter), "INVALID_ARGUMENT") << message.index();
    EXPECT_EQ(code_of(frame.substr(0, frame.size() - 1)), "more") << message.index();
  }
  std::string unknown = encode_session(SessionGoodbye{});
  unknown[4] = 99;
  EXPECT_EQ(code_of(unknown), "INVALID_ARGUMENT");
}

TEST(SessionFrameTest, BoundsItsFields) {
  EXPECT_TRUE(check_session_key(std::string(kMaxSessionKey, 'k')).ok());
  EXPECT_EQ(check_session_key(std::string(kMaxSessionKey + 1, 'k')).code(), base::Code::kInvalidArgument);
  EXPECT_EQ(check_session_value(std::string(kMaxSessionValue + 1, 'v')).code(), base::Code::kInvalidArgument);
  const SessionPut largest{1, std::string(kMaxSessionKey, 'k'), std::string(kMaxSessionValue, 'v')};
  EXPECT_EQ(code_of(encode_session(largest)), "message");
  EXPECT_EQ(code_of(encode_session(SessionPut{1, std::string(kMaxSessionKey + 1, 'k'), ""})), "INVALID_ARGUMENT");
  // Texts for people are cut.
  SessionReader reader;
  reader.append(encode_session(SessionEnded{1, true, std::string(2 * kMaxSessionText, 'c')}));
  const auto ended = reader.next();
  ASSERT_TRUE(ended.ok());
  EXPECT_EQ(std::get<SessionEnded>(ended->value()).cause.size(), kMaxSessionText);
}

TEST(SessionFrameTest, AWelcomeHasAWholeSecret) {
  EXPECT_EQ(code_of(encode_session(SessionWelcome{1, std::string(31, 's'), 0})), "INVALID_ARGUMENT");
  EXPECT_EQ(code_of(encode_session(SessionWelcome{1, std::string(33, 's'), 0})), "INVALID_ARGUMENT");
}

}  // namespace
}  // namespace muster::rendezvous::session_frame_test
