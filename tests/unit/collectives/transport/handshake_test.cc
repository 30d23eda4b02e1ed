#include "collectives/transport/handshake.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <random>
#include <string>

namespace muster::collectives::handshake_test {
namespace {

using base::Code;
using base::FdPair;
using Turn = Handshake::Turn;

const std::string kSecret(32, 's');

FdPair make_pair() {
  return base::make_socketpair(SOCK_STREAM | SOCK_NONBLOCK).value();
}

LinkRequest request_to(int destination) {
  return {LinkRequest::Purpose::kLink, 3, destination, "world/0"};
}

// Steps both until both are done or one has failed; the results of the last steps.
struct Ends {
  base::Result<Turn> caller = Turn::kWantsWrite;
  base::Result<Turn> listener = Turn::kWantsRead;
};
Ends run(Handshake& caller, Handshake& listener) {
  Ends ends;
  for (int i = 0; i < 10; ++i) {
    if (ends.caller.ok()) ends.caller = caller.step();
    if (ends.listener.ok()) ends.listener = listener.step();
  }
  return ends;
}

std::string receive_all(int fd) {
  char buffer[4096];
  const ssize_t n = ::recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT);
  return {buffer, n > 0 ? static_cast<std::size_t>(n) : 0};
}

void send_all(int fd, std::string_view bytes) {
  ASSERT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

// A listener at `pair.second` that `pair.first` has sent the Hello of a caller: it waits for the proof.
Handshake greeted_listener(FdPair& pair) {
  Handshake listener = Handshake::answer(std::move(pair.second), kSecret, 5);
  FdPair recorder = make_pair();
  Handshake caller = Handshake::call(std::move(recorder.first), kSecret, request_to(5));
  EXPECT_TRUE(caller.step().ok());
  send_all(pair.first.get(), receive_all(recorder.second.get()));
  EXPECT_TRUE(listener.step().ok());
  return listener;
}

TEST(HandshakeTest, BothEndsAgreeAndTheSocketIsTheirs) {
  FdPair pair = make_pair();
  Handshake caller = Handshake::call(std::move(pair.first), kSecret, request_to(5));
  Handshake listener = Handshake::answer(std::move(pair.second), kSecret, 5);
  const Ends ends = run(caller, listener);
  ASSERT_TRUE(ends.caller.ok() && ends.listener.ok());
  EXPECT_EQ(*ends.caller, Turn::kDone);
  EXPECT_EQ(*ends.listener, Turn::kDone);
  EXPECT_EQ(listener.request(), request_to(5));

  const base::UniqueFd one = caller.take_socket();
  const base::UniqueFd other = listener.take_socket();
  send_all(one.get(), "payload");
  EXPECT_EQ(receive_all(other.get()), "payload");
}

TEST(HandshakeTest, TheLongestNameOfACommunicatorArrives) {
  FdPair pair = make_pair();
  const LinkRequest request{LinkRequest::Purpose::kSession, 0, 1, std::string(kMaxCommunicatorName, 'x')};
  Handshake caller = Handshake::call(std::move(pair.first), kSecret, request);
  Handshake listener = Handshake::answer(std::move(pair.second), kSecret, 1);
  run(caller, listener);
  EXPECT_EQ(listener.request(), request);
}

TEST(HandshakeTest, ACallerWithAnotherSecretIsRefusedByBoth) {
  FdPair pair = make_pair();
  Handshake caller = Handshake::call(std::move(pair.first), std::string(32, 't'), request_to(5));
  Handshake listener = Handshake::answer(std::move(pair.second), kSecret, 5);
  const Ends ends = run(caller, listener);
  EXPECT_EQ(ends.caller.status().code(), Code::kUnauthenticated);
  // It has sent no proof: the listener goes on waiting until the connection is closed.
  ASSERT_TRUE(ends.listener.ok());
  EXPECT_EQ(*ends.listener, Turn::kWantsRead);
  caller.take_socket().reset();
  EXPECT_EQ(listener.step().status().code(), Code::kUnavailable);
}

TEST(HandshakeTest, AProofOfAnotherSecretIsRefused) {
  FdPair pair = make_pair();
  Handshake listener = greeted_listener(pair);
  send_all(pair.first.get(), std::string(Handshake::kProofSize, 'x'));
  EXPECT_EQ(listener.step().status().code(), Code::kUnauthenticated);
}

TEST(HandshakeTest, BothEndsOfAnEncryptedLinkHaveItsKeys) {
  FdPair pair = make_pair();
  LinkRequest request = request_to(5);
  request.is_encrypted = true;
  Handshake caller = Handshake::call(std::move(pair.first), kSecret, request);
  Handshake listener = Handshake::answer(std::move(pair.second), kSecret, 5, true);
  const Ends ends = run(caller, listener);
  ASSERT_TRUE(ends.caller.ok() && ends.listener.ok());
  EXPECT_EQ(listener.request(), request);
  const Connection left = caller.take_connection();
  const Connection right = listener.take_connection();
  ASSERT_TRUE(left.keys && right.keys);
  EXPECT_EQ(left.keys->sending, right.keys->receiving);
  EXPECT_EQ(left.keys->receiving, right.keys->sending);
  EXPECT_NE(left.keys->sending, left.keys->receiving);

  // Others for the next connection.
  FdPair again = make_pair();
  Handshake second = Handshake::call(std::move(again.first), kSecret, request);
  Handshake answer = Handshake::answer(std::move(again.second), kSecret, 5, true);
  run(second, answer);
  EXPECT_NE(second.take_connection().keys->sending, left.keys->sending);
}

TEST(HandshakeTest, WhereOnlyOneEncryptsBothGiveUp) {
  for (const bool listener_encrypts : {false, true}) {
    FdPair pair = make_pair();
    LinkRequest request = request_to(5);
    request.is_encrypted = !listener_encrypts;
    Handshake caller = Handshake::call(std::move(pair.first), kSecret, request);
    Handshake listener = Handshake::answer(std::move(pair.second), kSecret, 5, listener_encrypts);
    const Ends ends = run(caller, listener);
    EXPECT_EQ(ends.caller.status().code(), Code::kFailedPrecondition);
    EXPECT_EQ(ends.caller.status().message(),
              std::string(listener_encrypts ? "rank 5 encrypts its connections and rank 3 does not"
                                            : "rank 3 encrypts its connections and rank 5 does not") +
                  ": set MUSTER_ENCRYPT=1 for all ranks or for none");
    // Nothing was proved to the listener.
    ASSERT_TRUE(ends.listener.ok());
    EXPECT_EQ(*ends.listener, Turn::kWantsRead);
  }
}

TEST(HandshakeTest, TheSessionIsNotALink) {
  FdPair pair = make_pair();
  Handshake caller = Handshake::call(std::move(pair.first), kSecret, {LinkRequest::Purpose::kSession, 3, 5, ""});
  Handshake listener = Handshake::answer(std::move(pair.second), kSecret, 5, true);
  const Ends ends = run(caller, listener);
  ASSERT_TRUE(ends.caller.ok() && ends.listener.ok());
  EXPECT_FALSE(listener.take_connection().keys.has_value());
}

TEST(HandshakeTest, AnotherRankIsRefusedBeforeAnythingIsSaid) {
  FdPair pair = make_pair();
  const int client = pair.first.get();
  Handshake caller = Handshake::call(std::move(pair.first), kSecret, request_to(6));
  Handshake listener = Handshake::answer(std::move(pair.second), kSecret, 5);
  ASSERT_TRUE(caller.step().ok());
  EXPECT_EQ(listener.step().status().code(), Code::kUnauthenticated);
  EXPECT_EQ(receive_all(client), "");
}

TEST(HandshakeTest, RecordedMessagesAreNoAnswer) {
  // All that a caller says to one listener, said again to another one.
  FdPair first = make_pair();
  FdPair middle = make_pair();
  Handshake caller = Handshake::call(std::move(first.first), kSecret, request_to(5));
  Handshake listener = Handshake::answer(std::move(middle.second), kSecret, 5);
  ASSERT_TRUE(caller.step().ok());
  const std::string hello = receive_all(first.second.get());
  send_all(middle.first.get(), hello);
  ASSERT_TRUE(listener.step().ok());
  send_all(first.second.get(), receive_all(middle.first.get()));
  ASSERT_TRUE(caller.step().ok());
  const std::string proof = receive_all(first.second.get());
  ASSERT_EQ(proof.size(), Handshake::kProofSize);

  FdPair again = make_pair();
  Handshake second = Handshake::answer(std::move(again.second), kSecret, 5);
  send_all(again.first.get(), hello + proof);
  EXPECT_EQ(second.step().status().code(), Code::kUnauthenticated);
}

TEST(HandshakeTest, AReflectedChallengeIsNoProof) {
  FdPair pair = make_pair();
  Handshake listener = greeted_listener(pair);
  const std::string challenge = receive_all(pair.first.get());
  ASSERT_EQ(challenge.size(), Handshake::kChallengeSize);
  send_all(pair.first.get(), challenge.substr(32));
  EXPECT_EQ(listener.step().status().code(), Code::kUnauthenticated);

  // And a caller that gets its own Hello back: two callers connected to each other.
  FdPair callers = make_pair();
  Handshake left = Handshake::call(std::move(callers.first), kSecret, request_to(5));
  Handshake right = Handshake::call(std::move(callers.second), kSecret, request_to(5));
  const Ends ends = run(left, right);
  EXPECT_EQ(ends.caller.status().code(), Code::kUnauthenticated);
  EXPECT_EQ(ends.listener.status().code(), Code::kUnauthenticated);
}

TEST(HandshakeTest, BytesMayComeOneByOneAndThoseBehindTheProofStay) {
  FdPair to_caller = make_pair();
  FdPair to_listener = make_pair();
  Handshake caller = Handshake::call(std::move(to_caller.first), kSecret, request_to(5));
  Handshake listener = Handshake::answer(std::move(to_listener.second), kSecret, 5);
  bool is_done = false;
  while (!is_done) {
    ASSERT_TRUE(caller.step().ok());
    std::string bytes = receive_all(to_caller.second.get());
    if (bytes.size() == Handshake::kProofSize) bytes += "payload";
    for (const char byte : bytes) {
      send_all(to_listener.first.get(), {&byte, 1});
      const auto turn = listener.step();
      ASSERT_TRUE(turn.ok()) << turn.status();
      is_done = *turn == Turn::kDone;
    }
    for (const char byte : receive_all(to_listener.first.get())) {
      send_all(to_caller.second.get(), {&byte, 1});
      ASSERT_TRUE(caller.step().ok());
    }
  }
  const base::UniqueFd socket = listener.take_socket();
  EXPECT_EQ(receive_all(socket.get()), "payload");
}

TEST(HandshakeTest, AConnectionThatEndsEarlyIsUnavailable) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, Handshake::kHelloSize - 1}) {
    FdPair pair = make_pair();
    FdPair recorder = make_pair();
    Handshake caller = Handshake::call(std::move(recorder.first), kSecret, request_to(5));
    ASSERT_TRUE(caller.step().ok());
    Handshake listener = Handshake::answer(std::move(pair.second), kSecret, 5);
    send_all(pair.first.get(), receive_all(recorder.second.get()).substr(0, size));
    const auto turn = listener.step();
    ASSERT_TRUE(turn.ok());
    EXPECT_EQ(*turn, Turn::kWantsRead);
    pair.first.reset();
    EXPECT_EQ(listener.step().status().code(), Code::kUnavailable);
  }
}

TEST(HandshakeTest, RandomBytesAreRefused) {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    FdPair pair = make_pair();
    Handshake listener = Handshake::answer(std::move(pair.second), kSecret, 5);
    std::string bytes(Handshake::kHelloSize + random() % 100, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    send_all(pair.first.get(), bytes);
    EXPECT_EQ(listener.step().status().code(), Code::kUnauthenticated);
    EXPECT_EQ(receive_all(pair.first.get()), "");
  }
}

}  // namespace
}  // namespace muster::collectives::handshake_test
