// Tests HttpPoster with a server on a real socket.
#include "launcherd/trace/http_post.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <openssl/pem.h>

#include "tests/unit/launcherd/trace/fake_collector.h"
#include "tests/unit/support/certificate_authority.h"

namespace muster::launcherd::http_post_test {
namespace {

using testing_support::FakeCollector;

Waiter within(std::chrono::milliseconds time) {
  return {.deadline = std::chrono::steady_clock::now() + time};
}

base::Result<HttpReply> post(const OtlpOptions& options, const std::string& body = "body",
                             const Waiter& waiter = within(std::chrono::seconds(30))) {
  auto poster = HttpPoster::make(options);
  if (!poster.ok()) return poster.status();
  return poster->post(body, waiter);
}

TEST(HttpPost, SendsBodyAndHeaders) {
  FakeCollector collector;
  collector.answer_next(FakeCollector::reply(200, "", "reply"));
  OtlpOptions options = collector.options();
  options.headers = {{"authorization", "Bearer x"}};
  const std::string body(300'000, 'b');
  const auto reply = post(options, body);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(reply->body, "reply");
  const std::string request = collector.wait_for(1).front();
  EXPECT_TRUE(request.starts_with("POST /v1/traces HTTP/1.1\r\n")) << request.substr(0, 200);
  EXPECT_NE(request.find("authorization: Bearer x\r\n"), std::string::npos);
  EXPECT_NE(request.find("Content-Type: application/x-protobuf\r\n"), std::string::npos);
  EXPECT_EQ(FakeCollector::body_of(request), body);
}

TEST(HttpPost, ReadsRetryAfter) {
  FakeCollector collector;
  collector.answer_next(FakeCollector::reply(503, "Retry-After: 7\r\n"));
  EXPECT_EQ(post(collector.options())->retry_after, std::chrono::seconds(7));
  collector.answer_next(FakeCollector::reply(503, "Retry-After: Fri, 31 Dec 2026 23:59:59 GMT\r\n"));
  EXPECT_EQ(post(collector.options())->retry_after, std::nullopt);
}

TEST(HttpPost, SkipsInterimAnswers) {
  const std::string interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
  FakeCollector collector;
  collector.answer_next(interim + FakeCollector::reply(200, "", "reply"));
  const auto reply = post(collector.options());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(reply->body, "reply");
}

TEST(HttpPost, EndlessInterimAnswersAreTheAnswer) {
  std::string interim;
  for (int i = 0; i < 20; ++i) interim += "HTTP/1.1 100 Continue\r\n\r\n";
  FakeCollector collector;
  collector.answer_next(interim + FakeCollector::reply(200));
  EXPECT_EQ(post(collector.options())->status, 100);
  collector.answer_next("HTTP/1.1 101 Switching Protocols\r\n\r\n" + FakeCollector::reply(200));
  EXPECT_EQ(post(collector.options())->status, 101);
}

TEST(HttpPost, ClosedAndSilentServersAreErrors) {
  FakeCollector collector;
  collector.answer_next("HTTP/1.1 200 x\r\nContent-Le");
  EXPECT_EQ(post(collector.options()).status().code(), base::Code::kUnavailable);
  collector.answer_next("no HTTP\r\n\r\n");
  EXPECT_EQ(post(collector.options()).status().code(), base::Code::kUnavailable);
  collector.answer_next("");
  EXPECT_EQ(post(collector.options(), "x", within(std::chrono::milliseconds(50))).status().code(),
            base::Code::kDeadlineExceeded);
}

TEST(HttpPost, AHugeAnswerIsRefused) {
  FakeCollector collector;
  collector.answer_next(FakeCollector::reply(200, "", std::string(100'000, 'x')));
  EXPECT_EQ(post(collector.options()).status().code(), base::Code::kUnavailable);
}

TEST(HttpPost, NoServerIsAnError) {
  OtlpOptions options;
  options.url = {.host = "127.0.0.1", .port = 1, .path = "/"};
  const auto reply = post(options);
  EXPECT_EQ(reply.status().code(), base::Code::kUnavailable);
  EXPECT_EQ(reply.status().message().find("127.0.0.1"), std::string::npos) << reply.status();
}

TEST(HttpPost, ACancelledWaitEnds) {
  FakeCollector collector;
  collector.answer_next("");
  CancelSource cancel;
  std::thread later([&] {
    collector.wait_for(1);
    cancel.cancel();
  });
  Waiter waiter = within(std::chrono::seconds(30));
  waiter.cancel_fd = cancel.fd();
  EXPECT_EQ(post(collector.options(), "x", waiter).status().code(), base::Code::kCancelled);
  later.join();
}

class HttpPostTls : public ::testing::Test {
 protected:
  HttpPostTls() : context_(::SSL_CTX_new(::TLS_server_method()), ::SSL_CTX_free) {
    directory_ = (std::filesystem::temp_directory_path() / "http_post.XXXXXX").string();
    EXPECT_NE(::mkdtemp(directory_.data()), nullptr);
  }
  ~HttpPostTls() override { std::filesystem::remove_all(directory_); }

  std::string file(const std::string& name, const std::string& content) const {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path) << content;
    return path;
  }
  // A server whose certificate has this name.
  std::unique_ptr<FakeCollector> serve(const std::string& alternative_name) {
    const auto identity = authority_.issue("collector", {alternative_name}).value();
    const std::string certificate = file("server.pem", identity.cert_pem);
    const std::string key = file("server-key.pem", identity.key_pem);
    EXPECT_EQ(::SSL_CTX_use_certificate_chain_file(context_.get(), certificate.c_str()), 1);
    EXPECT_EQ(::SSL_CTX_use_PrivateKey_file(context_.get(), key.c_str(), SSL_FILETYPE_PEM), 1);
    return std::make_unique<FakeCollector>(context_.get());
  }

  testing_support::CertificateAuthority authority_ = testing_support::CertificateAuthority::create().value();
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_;
  std::string directory_;
};

TEST_F(HttpPostTls, TrustsAServerOfTheAuthorityWithItsAddress) {
  const auto collector = serve("IP:127.0.0.1");
  OtlpOptions options = collector->options();
  options.certificate = file("ca.pem", authority_.ca_pem());
  const auto reply = post(options, std::string(200'000, 'x'));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->status, 200);
}

TEST_F(HttpPostTls, RefusesAnotherName) {
  const auto collector = serve("IP:127.0.0.2");
  OtlpOptions options = collector->options();
  options.certificate = file("ca.pem", authority_.ca_pem());
  EXPECT_EQ(post(options).status().code(), base::Code::kUnauthenticated);
  EXPECT_EQ(collector->count(), 0U);
}

TEST_F(HttpPostTls, RefusesAnUnknownAuthority) {
  const auto collector = serve("IP:127.0.0.1");
  EXPECT_EQ(post(collector->options()).status().code(), base::Code::kUnauthenticated);
  EXPECT_EQ(collector->count(), 0U);
}

TEST_F(HttpPostTls, WrongFilesNameTheirVariable) {
  OtlpOptions options;
  options.url = {.is_tls = true, .host = "127.0.0.1", .port = 1, .path = "/"};
  options.certificate = directory_ + "/missing";
  EXPECT_TRUE(post(options).status().message().starts_with("OTEL_EXPORTER_OTLP_CERTIFICATE="));
  options.certificate = file("ca.pem", authority_.ca_pem());
  options.client_certificate = file("wrong.pem", "wrong");
  EXPECT_TRUE(post(options).status().message().starts_with("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE="));
  options.client_certificate = file("own.pem", authority_.issue("own", {}).value().cert_pem);
  EXPECT_TRUE(post(options).status().message().starts_with("OTEL_EXPORTER_OTLP_CLIENT_KEY="));
}

}  // namespace
}  // namespace muster::launcherd::http_post_test
