#include "base/tls.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "tests/unit/support/certificate_authority.h"

namespace muster::base::tls_test {
namespace {

using testing_support::CertificateAuthority;

MonotonicTime soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(20);
}

template <typename T>
T must(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) std::abort();
  return std::move(result).value();
}

X509* parse_certificate(const std::string& pem) {
  const std::unique_ptr<BIO, int (*)(BIO*)> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
  return PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr);
}

std::string names_of(X509* certificate) {
  auto* names = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  const std::unique_ptr<BIO, int (*)(BIO*)> bio(BIO_new(BIO_s_mem()), BIO_free);
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    if (i > 0) BIO_puts(bio.get(), " ");
    GENERAL_NAME_print(bio.get(), sk_GENERAL_NAME_value(names, i));
  }
  GENERAL_NAMES_free(names);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  std::string text(data, static_cast<std::size_t>(size));
  for (const auto& [from, to] : {std::pair("IP Address:", "IP:")}) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos;) text.replace(at, std::strlen(from), to);
  }
  return text;
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

  static TlsKey key(int agent) {
    return {"muster://abcdefgh/output/" + std::to_string(agent), "0123456789abcdef-" + std::to_string(agent)};
  }

  const TlsContext server_ = must(TlsContext::server({key(1), key(3)}));
  const TlsContext client_ = must(TlsContext::client(key(3)));
};

TEST_F(Tls, TheServerKnowsWhoseKeyItWas) {
  Pair pair(server_, client_);
  ASSERT_TRUE(pair.server_status.ok()) << pair.server_status;
  ASSERT_TRUE(pair.client_status.ok()) << pair.client_status;
  EXPECT_EQ(pair.server->peer_identity(), key(3).identity);
  EXPECT_EQ(pair.client->peer_identity(), "");
}

TEST_F(Tls, StreamsOutliveTheirContext) {
  auto context = std::make_unique<TlsContext>(must(TlsContext::server({key(3)})));
  FdPair fds = must(make_socketpair(SOCK_STREAM));
  TlsStream server(*context, std::move(fds.first));
  context.reset();
  TlsStream client(client_, std::move(fds.second));
  std::thread other([&] { EXPECT_TRUE(client.handshake_blocking(soon(), -1).ok()); });
  EXPECT_TRUE(server.handshake_blocking(soon(), -1).ok());
  other.join();
  EXPECT_EQ(server.peer_identity(), key(3).identity);
}

TEST_F(Tls, KeysComeAndGoWhileAServerRuns) {
  const auto ring = std::make_shared<TlsKeyRing>();
  const TlsContext server = must(TlsContext::server(ring));
  EXPECT_FALSE(Pair(server, client_).server_status.ok());
  ASSERT_TRUE(ring->add(key(3)).ok());
  Pair pair(server, client_);
  ASSERT_TRUE(pair.server_status.ok()) << pair.server_status;
  ring->remove(key(3).identity);
  EXPECT_EQ(pair.server->peer_identity(), key(3).identity) << "a connection that was accepted goes on";
  EXPECT_FALSE(Pair(server, client_).server_status.ok());
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

// A sender drops what its peer has acknowledged, and only if it has sent that.
TEST_F(Tls, WhatThePeerHasReadHasBeenReportedAsWritten) {
  Pair pair(server_, client_);
  const std::string data(std::size_t{8} << 20, 'x');
  std::vector<char> buffer(data.size());
  std::size_t written = 0;
  std::size_t read = 0;
  std::size_t waits = 0;
  for (std::size_t turn = 0; read < data.size(); ++turn) {
    for (bool is_full = false; !is_full && written < data.size();) {
      const TlsTransfer moved = must(pair.client->write(data.data() + written, data.size() - written));
      written += moved.bytes;
      is_full = moved.progress == TlsProgress::kWantWrite;
      waits += is_full ? 1U : 0U;
    }
    // As much as is there, and less: so that records end everywhere.
    const std::size_t most = turn % 3 == 0 ? buffer.size() : 1 + turn * 7919 % 50'000;
    for (std::size_t taken = 0; taken < most;) {
      const TlsTransfer moved = must(pair.server->read(buffer.data(), most - taken));
      if (moved.bytes == 0) break;
      taken += moved.bytes;
      read += moved.bytes;
    }
    ASSERT_LE(read, written) << turn;
  }
  EXPECT_GT(waits, 10U);
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

TEST_F(Tls, WithoutTheKeyBothEndsRefuse) {
  const auto expect_refused = [](Pair pair) {
    EXPECT_EQ(pair.server_status.code(), Code::kUnauthenticated) << pair.server_status;
    EXPECT_FALSE(pair.client_status.ok());
    EXPECT_EQ(pair.server->peer_identity(), "");
  };
  expect_refused({server_, must(TlsContext::client({key(3).identity, key(1).secret}))});
  expect_refused({server_, must(TlsContext::client(key(4)))});
  expect_refused({must(TlsContext::server({{key(3).identity, key(1).secret}})), client_});
  expect_refused({must(TlsContext::server(std::vector<TlsKey>())), client_});
}

// A peer of another kind: one that trusts certificates, or shows one.
TEST_F(Tls, CertificatesAreNoWayIn) {
  const CertificateAuthority ca = must(CertificateAuthority::create());
  const TlsIdentity identity = must(ca.issue("agent", {"URI:muster://abcdefgh/agent"}));
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  const std::unique_ptr<X509, void (*)(X509*)> certificate(parse_certificate(identity.cert_pem), X509_free);
  const std::unique_ptr<BIO, int (*)(BIO*)> key_bio(BIO_new_mem_buf(identity.key_pem.data(), -1), BIO_free);
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> own(
      PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr), EVP_PKEY_free);
  ASSERT_EQ(SSL_CTX_use_certificate(context.get(), certificate.get()), 1);
  ASSERT_EQ(SSL_CTX_use_PrivateKey(context.get(), own.get()), 1);
  for (const bool is_server : {true, false}) {
    FdPair fds = must(make_socketpair(SOCK_STREAM));
    TlsStream ours(is_server ? server_ : client_, std::move(fds.first));
    std::thread other([&] {
      const std::unique_ptr<SSL, void (*)(SSL*)> ssl(SSL_new(context.get()), SSL_free);
      SSL_set_fd(ssl.get(), fds.second.get());
      EXPECT_NE(is_server ? SSL_connect(ssl.get()) : SSL_accept(ssl.get()), 1);
      fds.second.reset();
    });
    EXPECT_FALSE(ours.handshake_blocking(soon(), -1).ok());
    shutdown(ours.fd(), SHUT_RDWR);
    other.join();
  }
}

TEST_F(Tls, JunkIsAnError) {
  FdPair fds = must(make_socketpair(SOCK_STREAM));
  TlsStream stream(server_, std::move(fds.first));
  ASSERT_TRUE(write_all_blocking(fds.second.get(), "SSH-2.0-OpenSSH_9.2\r\n", 21).ok());
  EXPECT_EQ(stream.handshake_blocking(soon(), -1).code(), Code::kUnauthenticated);
  EXPECT_EQ(stream.handshake_step().status().code(), Code::kInternal);
  EXPECT_EQ(stream.peer_identity(), "");
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

TEST_F(Tls, KeysThatAreNoneAreRefused) {
  EXPECT_EQ(TlsContext::client({"", "0123456789abcdef"}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(TlsContext::client({"x", "too short"}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(TlsContext::server({{"x", std::string(257, 's')}}).status().code(), Code::kInvalidArgument);
}

TEST(CertificateAuthority, LeavesHaveTheNamesAskedForAndAreNoAuthority) {
  const CertificateAuthority ca = must(CertificateAuthority::create());
  const TlsIdentity leaf = must(ca.issue("agent", {"URI:muster://a/agent", "DNS:n3", "IP:10.0.0.3", "IP:fe80::1"}));
  const std::unique_ptr<X509, void (*)(X509*)> certificate(parse_certificate(leaf.cert_pem), X509_free);
  const std::unique_ptr<X509, void (*)(X509*)> authority(parse_certificate(ca.ca_pem()), X509_free);
  EXPECT_EQ(names_of(certificate.get()), "URI:muster://a/agent DNS:n3 IP:10.0.0.3 IP:FE80:0:0:0:0:0:0:1");
  EXPECT_EQ(X509_verify(certificate.get(), X509_get0_pubkey(authority.get())), 1);
  EXPECT_EQ(X509_check_ca(authority.get()), 1);
  EXPECT_EQ(X509_check_ca(certificate.get()), 0);
  EXPECT_LT(X509_cmp_current_time(X509_get0_notBefore(certificate.get())), 0);
  EXPECT_GT(X509_cmp_current_time(X509_get0_notAfter(certificate.get())), 0);
  const CertificateAuthority other = must(CertificateAuthority::create());
  const std::unique_ptr<X509, void (*)(X509*)> foreign(parse_certificate(other.ca_pem()), X509_free);
  EXPECT_NE(X509_verify(certificate.get(), X509_get0_pubkey(foreign.get())), 1);
}

TEST(CertificateAuthority, NamesThatCouldSmuggleOthersAreRefused) {
  const CertificateAuthority ca = must(CertificateAuthority::create());
  EXPECT_EQ(ca.issue("x", {"URI:muster://a/agent/0, DNS:launcherd"}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ca.issue("x", {"DNS:a\nb"}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ca.issue("x", {"DNS:"}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ca.issue("x", {"launcherd"}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ca.issue("x", {"IP:300.1.1.1"}).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace muster::base::tls_test
