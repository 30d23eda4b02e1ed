#include "rendezvous/tcp_store_streams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "rendezvous/memory_store.h"
#include "tests/unit/rendezvous/loop_peer.h"
#include "tests/unit/rendezvous/torch_wire.h"

namespace muster::rendezvous::tcp_store_streams_test {
namespace {

using ::testing::HasSubstr;
using namespace testing;

// Requests of generation C.
std::string set(std::string_view key, std::string_view value) {
  return u8(1) + text(key) + text(value);
}
std::string get(std::string_view key) {
  return u8(3) + text(key);
}
std::string wait_for(std::string_view key) {
  return u8(6) + texts({std::string(key)});
}

class TcpStoreStreamsTest : public ::testing::Test {
 protected:
  struct Client {
    std::string bytes;
    std::size_t credit = 0;
    bool is_closed = false;
  };

  ByteStreams::Id open() {
    const auto client = std::make_shared<Client>();
    const ByteStreams::Id id =
        streams_.open("host 1", {.on_bytes = [client](std::string_view bytes) { client->bytes += bytes; },
                                 .on_credit = [client](std::size_t size) { client->credit += size; },
                                 .on_closed = [client] { client->is_closed = true; }});
    clients_[id] = client;
    streams_.send(id, validate());
    return id;
  }

  base::Loop loop_;
  MemoryStore store_;
  TcpStoreHub hub_{&store_, TorchGeneration::kA, {}};
  std::vector<std::string> problems_;
  TcpStoreStreams streams_{loop_, hub_, [this](const base::Status& why) { problems_.push_back(why.message()); }};
  std::map<ByteStreams::Id, std::shared_ptr<Client>> clients_;
};

TEST_F(TcpStoreStreamsTest, AStreamIsASession) {
  const auto one = open();
  const auto two = open();
  const std::string request = set("k", "v");
  streams_.send(one, request.substr(0, 3));
  streams_.send(one, request.substr(3));
  streams_.send(two, get("k"));
  EXPECT_EQ(clients_[two]->bytes, text("v"));
  EXPECT_EQ(clients_[one]->credit, validate().size() + request.size());
}

TEST_F(TcpStoreStreamsTest, AWaitEndsByAnotherClientsKeyAndLeavesWithItsClient) {
  const auto waiting = open();
  const auto gone = open();
  streams_.send(waiting, wait_for("k"));
  streams_.send(gone, wait_for("k"));
  streams_.close(gone);
  streams_.send(open(), set("k", "v"));
  EXPECT_EQ(clients_[waiting]->bytes, "") << "from the loop, because another request is being served";
  ASSERT_TRUE(run_until(loop_, [&] { return !clients_[waiting]->bytes.empty(); }));
  EXPECT_EQ(clients_[waiting]->bytes, u8(0));
  EXPECT_EQ(clients_[gone]->bytes, "");
  EXPECT_EQ(streams_.size(), 2U);
}

TEST_F(TcpStoreStreamsTest, KnowsWhatAClientWaitsFor) {
  const auto waiting = open();
  std::vector<std::string> answers;
  const auto note = [&answers](const std::optional<StreamWait>& wait) { answers.push_back(wait ? wait->what : "-"); };
  streams_.ask_wait(waiting, note);
  streams_.send(waiting, wait_for("k"));
  streams_.ask_wait(waiting, note);
  streams_.close(waiting);
  streams_.ask_wait(waiting, note);
  EXPECT_THAT(answers, ::testing::ElementsAre("-", "the key \"k\" in torch's store", "-"));
}

TEST_F(TcpStoreStreamsTest, SendsNoMoreThanTheWindow) {
  const std::string large(3 * kStreamWindow, 'x');
  ASSERT_TRUE(store_.set("k", large).ok());
  const auto id = open();
  streams_.send(id, get("k"));
  EXPECT_EQ(clients_[id]->bytes.size(), kStreamWindow);
  while (clients_[id]->bytes.size() < large.size() + 8) {
    const std::size_t before = clients_[id]->bytes.size();
    streams_.credit(id, kStreamWindow);
    ASSERT_GT(clients_[id]->bytes.size(), before);
  }
  EXPECT_EQ(clients_[id]->bytes, text(large));
}

TEST_F(TcpStoreStreamsTest, AClientThatLeavesIsServedToItsLastRequest) {
  ASSERT_TRUE(store_.set("large", std::string(8 << 20, 'x')).ok());
  const auto id = open();
  for (int i = 0; i < 3; ++i) streams_.send(id, get("large"));
  streams_.send(id, set("last", "v"));
  EXPECT_EQ(store_.find("last"), nullptr) << "it reads nothing, so it is not served";
  streams_.close(id);
  EXPECT_NE(store_.find("last"), nullptr);
  EXPECT_FALSE(clients_[id]->is_closed) << "it has closed the stream itself";
}

TEST_F(TcpStoreStreamsTest, ABadRequestEndsItsStreamOnly) {
  const auto bad = open();
  const auto good = open();
  streams_.send(bad, u8(200));
  EXPECT_TRUE(clients_[bad]->is_closed);
  ASSERT_EQ(problems_.size(), 1U);
  EXPECT_THAT(problems_[0], HasSubstr("TCPStore: client of host 1 closed"));
  streams_.send(bad, get("k"));
  streams_.send(good, set("k", "v"));
  streams_.send(good, get("k"));
  EXPECT_EQ(clients_[good]->bytes, text("v"));
}

}  // namespace
}  // namespace muster::rendezvous::tcp_store_streams_test
