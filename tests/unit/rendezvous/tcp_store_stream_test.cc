#include "rendezvous/tcp_store_stream.h"

#include <gtest/gtest.h>

#include "tests/unit/rendezvous/torch_wire.h"

namespace muster::rendezvous::tcp_store_stream_test {
namespace {

using testing::i64;
using testing::text;
using testing::texts;
using testing::u8;

const std::string kAddInit = u8(3) + text("init/") + i64(1);  // A's and B's first request
const std::string kHere = "10.0.0.1";

struct Client {
  TorchRequestStream stream;
  Client(TorchPeers* peers, const std::string& address = kHere) : stream(peers, address, {}) {}

  // The requests in the bytes; "error" for one that is none.
  std::string ops(std::string_view bytes) {
    std::string names;
    stream.feed(bytes);
    while (true) {
      const auto found = stream.next();
      if (!found.ok()) return names + "error";
      if (!*found) break;
      names += name(stream.op()) + " ";
    }
    stream.keep();
    return names;
  }

  static std::string name(TorchOp op) {
    switch (op) {
      case TorchOp::kAdd:
        return "ADD";
      case TorchOp::kWatchKey:
        return "WATCH_KEY";
      case TorchOp::kDeleteKey:
        return "DELETE_KEY";
      case TorchOp::kAppend:
        return "APPEND";
      case TorchOp::kMultiGet:
        return "MULTI_GET";
      case TorchOp::kCancelWait:
        return "CANCEL_WAIT";
      case TorchOp::kPing:
        return "PING";
      default:
        return "?";
    }
  }
};

TEST(TorchRequestStream, ValidateMakesItC) {
  TorchPeers peers(TorchGeneration::kA);
  Client client(&peers);
  for (const char byte : testing::validate()) EXPECT_EQ(client.ops({&byte, 1}), "");
  EXPECT_EQ(client.ops(u8(4) + text("init/") + i64(1) + u8(8) + text("k") + u8(9) + text("k") + text("v") + u8(13)),
            "ADD DELETE_KEY APPEND ");
  EXPECT_EQ(client.ops("\x01\x02\x03\x04"), "PING ");
  EXPECT_TRUE(client.stream.is_generation_c());
  EXPECT_EQ(client.ops(testing::validate()), "error");  // a second time
}

TEST(TorchRequestStream, AWrongMagicIsASetBeyondTheLimits) {
  TorchPeers peers(TorchGeneration::kA);
  Client client(&peers);
  EXPECT_EQ(client.ops(std::string("\x00\xCE\xF7\x85\x3D", 5)), "");
  EXPECT_EQ(client.ops(std::string(4, '\0')), "error");
}

TEST(TorchRequestStream, JunkIsRefusedAtItsFirstByte) {
  TorchPeers peers(TorchGeneration::kA);
  EXPECT_EQ(Client(&peers).ops("GET / HTTP/1.1\r\n\r\n"), "error");
  EXPECT_EQ(Client(&peers).ops("\x16\x03\x01"), "error");
  EXPECT_EQ(Client(&peers).ops("\x0C"), "error");  // CANCEL_WAIT only of C
}

TEST(TorchRequestStream, Code7IsWatchKeyOnAConnectionOfItsOwn) {
  TorchPeers peers(TorchGeneration::kA);
  Client client(&peers);
  EXPECT_EQ(client.ops(u8(7) + text("k") + u8(7) + text("l")), "WATCH_KEY WATCH_KEY ");
}

TEST(TorchRequestStream, Code7AfterOthersIsDeleteKey) {
  TorchPeers peers(TorchGeneration::kA);
  Client client(&peers);
  EXPECT_EQ(client.ops(kAddInit + u8(7) + text("k") + u8(8) + text("k") + text("v")), "ADD DELETE_KEY APPEND ");
  EXPECT_EQ(peers.hint(), TorchGeneration::kB);
  EXPECT_EQ(Client(&peers).ops(u8(7) + text("k")), "DELETE_KEY ");  // what one has shown holds for all
}

TEST(TorchRequestStream, Code8WithASilentTwinIsDeleteKey) {
  TorchPeers peers(TorchGeneration::kA);
  Client client(&peers);
  Client callback_connection(&peers);
  EXPECT_EQ(client.ops(kAddInit + u8(8) + text("k")), "ADD DELETE_KEY ");
  EXPECT_EQ(client.ops(u8(8) + text("k")), "DELETE_KEY ");
  EXPECT_EQ(client.ops(u8(7) + text("k")), "WATCH_KEY ");  // it is A for good
}

TEST(TorchRequestStream, Code8WithoutASilentTwinIsAppend) {
  TorchPeers peers(TorchGeneration::kA);
  Client client(&peers);
  Client elsewhere(&peers, "10.0.0.2");
  EXPECT_EQ(client.ops(kAddInit + u8(8) + text("k")), "ADD ");
  EXPECT_EQ(client.ops(text("v")), "APPEND ");
  EXPECT_EQ(client.ops(u8(11)), "CANCEL_WAIT ");
}

TEST(TorchRequestStream, Code8WithMoreBytesIsAppend) {
  TorchPeers peers(TorchGeneration::kA);
  Client client(&peers);
  Client silent(&peers);
  EXPECT_EQ(client.ops(kAddInit + u8(8) + text("k") + text("v")), "ADD APPEND ");
}

TEST(TorchRequestStream, Code8WithASilentTwinFollowsTheHint) {
  TorchPeers peers(TorchGeneration::kB);
  Client client(&peers);
  Client silent(&peers);
  EXPECT_EQ(client.ops(kAddInit + u8(8) + text("k")), "ADD ");
  EXPECT_EQ(client.ops(text("v")), "APPEND ");
}

TEST(TorchRequestStream, ATwinThatHasSpokenOrGoneIsNotSilent) {
  TorchPeers peers(TorchGeneration::kA);
  Client client(&peers);
  Client spoke(&peers);
  EXPECT_EQ(spoke.ops(kAddInit), "ADD ");
  { const Client gone(&peers); }
  EXPECT_FALSE(peers.has_silent("10.0.0.2"));
  EXPECT_TRUE(peers.has_silent(kHere));  // client itself
  EXPECT_EQ(client.ops(kAddInit), "ADD ");
  EXPECT_FALSE(peers.has_silent(kHere));
}

TEST(TorchRequestStream, CodesFrom9AreB) {
  TorchPeers peers(TorchGeneration::kA);
  Client client(&peers);
  EXPECT_EQ(client.ops(kAddInit + u8(9) + texts({"k"})), "ADD MULTI_GET ");
  EXPECT_EQ(peers.hint(), TorchGeneration::kB);
}

TEST(TorchRequestStream, GivesMemoryOfALargeRequestBack) {
  TorchPeers peers(TorchGeneration::kA);
  TorchRequestStream stream(&peers, kHere, {});
  const std::string request = u8(0) + text("k") + text(std::string(1 << 20, 'x'));
  stream.feed(std::string_view(request).substr(0, request.size() - 1));
  EXPECT_FALSE(*stream.next());
  stream.keep();
  EXPECT_GE(stream.held_bytes(), request.size() - 1);
  stream.feed("x");
  ASSERT_TRUE(*stream.next());
  EXPECT_EQ(stream.text(1).size(), 1u << 20);
  stream.keep();
  EXPECT_LT(stream.held_bytes(), 1u << 10);
}

}  // namespace
}  // namespace muster::rendezvous::tcp_store_stream_test
