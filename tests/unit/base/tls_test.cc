#include "base/tls.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace muster::base {
namespace {

MonotonicTime soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(20);
}

template <typename T>
T must(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) std::abort();
  return std::move(result).value();
}

// Two streams whose handshake is done (or whose errors are kept).
struct Pair {
  Pair(const TlsContext& server_context, const TlsContext& client_context) {
    FdPair fds = must(make_socketpair(SOCK_STREAM));
    server = std::make_unique<TlsStream>(server_context, std::move(fds.first));
    client = std::make_unique<TlsStream>(client_context, std::move(fds.second));
    std::thread other([this] { client_status = client->handshake_blocking(soon(), -1); });
    server_status = server->handshake_blocking(soon(), -1);
    if (!server_status.ok()) shutdown(server->fd(), SHUT_RDWR);
    other.join();
  }
  std::unique_ptr<TlsStream> server;
  std::unique_ptr<TlsStream> client;
  Status server_status;
  Status client_status;
};

class Tls : public ::testing::Test {
 protected:
  void SetUp() override { signal(SIGPIPE, SIG_IGN); }

  const CertificateAuthority ca_ = must(CertificateAuthority::create());
  const TlsContext server_ = must(TlsContext::server(ca_.ca_pem(), must(ca_.issue("launcher", {"DNS:launcherd"}))));
  const TlsContext client_ = must(TlsContext::client(
      ca_.ca_pem(),
      must(ca_.issue("agent", {"URI:muster://abcdefgh/agent/3", "DNS:n3", "IP:10.0.0.3", "IP:fe80::1"}))));
};

TEST_F(Tls, BothEndsKnowThePeersNames) {
  Pair pair(server_, client_);
  ASSERT_TRUE(pair.server_status.ok()) << pair.server_status;
  ASSERT_TRUE(pair.client_status.ok()) << pair.client_status;
  EXPECT_EQ(pair.server->peer_uri(), "muster://abcdefgh/agent/3");
  EXPECT_EQ(pair.server->peer_names(), (std::vector<std::string>{"URI:muster://abcdefgh/agent/3", "DNS:n3"}));
  EXPECT_EQ(pair.client->peer_names(), std::vector<std::string>{"DNS:launcherd"});
  EXPECT_EQ(pair.client->peer_uri(), "");
}

TEST_F(Tls, BytesPassBothWaysWhole) {
  Pair pair(server_, client_);
  const std::string sent(3'000'000, 'm');
  std::string got(sent.size(), '\0');
  std::thread writer([&] { EXPECT_TRUE(pair.client->write_all_blocking(sent.data(), sent.size(), soon(), -1).ok()); });
  EXPECT_TRUE(pair.server->read_exactly_blocking(got.data(), got.size(), soon(), -1).ok());
  writer.join();
  EXPECT_EQ(got, sent);
  EXPECT_TRUE(pair.server->write_all_blocking("pong", 4, soon(), -1).ok());
  EXPECT_TRUE(pair.client->read_exactly_blocking(got.data(), 4, soon(), -1).ok());
  EXPECT_EQ(got.substr(0, 4), "pong");
}

TEST_F(Tls, AStreamCanBeMoved) {
  Pair pair(server_, client_);
  TlsStream moved(std::move(*pair.server));
  *pair.client = std::move(*pair.client);  // to itself: nothing happens
  EXPECT_TRUE(moved.write_all_blocking("x", 1, soon(), -1).ok());
  char byte = 0;
  EXPECT_TRUE(pair.client->read_exactly_blocking(&byte, 1, soon(), -1).ok());
  EXPECT_EQ(byte, 'x');
}

TEST_F(Tls, ACutIsNotAnEnd) {
  Pair clean(server_, client_);
  clean.client->close_notify();
  char byte = 0;
  ASSERT_TRUE(clean.server->read(&byte, 1).ok());
  EXPECT_EQ(clean.server->read(&byte, 1)->progress, TlsProgress::kEof);

  Pair cut(server_, client_);
  shutdown(cut.client->fd(), SHUT_RDWR);
  EXPECT_EQ(cut.server->read_exactly_blocking(&byte, 1, soon(), -1).code(), Code::kUnavailable);
  EXPECT_FALSE(cut.server->read(&byte, 1).ok());  // dead from now on
  EXPECT_FALSE(cut.server->write(&byte, 1).ok());
}

TEST_F(Tls, AForeignAuthorityIsRefusedByBothEnds) {
  const CertificateAuthority foreign = must(CertificateAuthority::create());
  const TlsIdentity leaf = must(foreign.issue("agent", {"URI:muster://abcdefgh/agent/3"}));
  Pair client_is_foreign(server_, must(TlsContext::client(ca_.ca_pem(), leaf)));
  EXPECT_EQ(client_is_foreign.server_status.code(), Code::kUnauthenticated) << client_is_foreign.server_status;
  // TLS 1.3: the client's own handshake may look fine, its first read does not.
  char byte = 0;
  EXPECT_FALSE(client_is_foreign.client->read_exactly_blocking(&byte, 1, soon(), -1).ok());

  Pair server_is_foreign(must(TlsContext::server(ca_.ca_pem(), leaf)), client_);
  EXPECT_EQ(server_is_foreign.client_status.code(), Code::kUnauthenticated) << server_is_foreign.client_status;
}

TEST_F(Tls, ALeafIsNoAuthority) {
  const TlsIdentity leaf = must(ca_.issue("agent", {"URI:muster://abcdefgh/agent/3"}));
  Pair pair(must(TlsContext::server(leaf.cert_pem, must(ca_.issue("launcher", {"DNS:launcherd"})))), client_);
  EXPECT_FALSE(pair.server_status.ok());
}

TEST_F(Tls, JunkIsAnError) {
  FdPair fds = must(make_socketpair(SOCK_STREAM));
  TlsStream stream(server_, std::move(fds.first));
  ASSERT_TRUE(write_all_blocking(fds.second.get(), "SSH-2.0-OpenSSH_9.2\r\n", 21).ok());
  EXPECT_EQ(stream.handshake_blocking(soon(), -1).code(), Code::kUnauthenticated);
  EXPECT_EQ(stream.handshake_step().status().code(), Code::kInternal);
  EXPECT_TRUE(stream.peer_names().empty());
}

TEST_F(Tls, ASilentPeerEndsByDeadlineOrCancel) {
  FdPair fds = must(make_socketpair(SOCK_STREAM));
  TlsStream stream(server_, std::move(fds.first));
  const MonotonicTime deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
  EXPECT_EQ(stream.handshake_blocking(deadline, -1).code(), Code::kDeadlineExceeded);
  FdPair cancel = must(make_pipe());
  cancel.second.reset();  // readable: EOF
  EXPECT_EQ(stream.handshake_blocking(soon(), cancel.first.get()).code(), Code::kCancelled);
}

TEST_F(Tls, NamesThatCouldSmuggleOthersAreRefused) {
  EXPECT_EQ(ca_.issue("x", {"URI:muster://a/agent/0, DNS:launcherd"}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ca_.issue("x", {"DNS:a\nb"}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ca_.issue("x", {"DNS:"}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ca_.issue("x", {"launcherd"}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ca_.issue("x", {"IP:300.1.1.1"}).status().code(), Code::kInvalidArgument);
}

TEST_F(Tls, BadPemIsAnError) {
  EXPECT_FALSE(TlsContext::client("", must(ca_.issue("x", {}))).ok());
  EXPECT_FALSE(TlsContext::client(ca_.ca_pem(), {.cert_pem = "nonsense", .key_pem = "nonsense"}).ok());
  const TlsIdentity one = must(ca_.issue("one", {}));
  const TlsIdentity two = must(ca_.issue("two", {}));
  EXPECT_FALSE(TlsContext::client(ca_.ca_pem(), {.cert_pem = one.cert_pem, .key_pem = two.key_pem}).ok());
}

}  // namespace
}  // namespace muster::base
