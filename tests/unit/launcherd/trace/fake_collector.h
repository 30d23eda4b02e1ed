// A collector for tests: it keeps each request, and answers as the test says. With TLS if it gets a certificate.
#pragma once

#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "launcherd/trace/otlp_options.h"
#include "proto/wire/otlp.pb.h"

namespace muster::testing_support {

class FakeCollector {
 public:
  // `context` is for TLS; borrowed. nullptr means HTTP.
  explicit FakeCollector(SSL_CTX* context = nullptr) : context_(context) {
    listener_ = base::UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_.get(), 16), 0);
    EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeCollector() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  FakeCollector(const FakeCollector&) = delete;
  FakeCollector& operator=(const FakeCollector&) = delete;

  // The answer to the next request. Without one the answer is 200 with an empty body. An empty text means that the
  // connection stays silent until the end of the test.
  void answer_next(std::string reply) {
    const std::lock_guard lock(mutex_);
    replies_.push_back(std::move(reply));
  }
  static std::string reply(int status, const std::string& headers = "", const std::string& body = "") {
    return fmt::format("HTTP/1.1 {} x\r\n{}Content-Length: {}\r\n\r\n{}", status, headers, body.size(), body);
  }

  // Waits for this many requests, and returns all, with their headers.
  std::vector<std::string> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), [&] { return requests_.size() >= count; }));
    return requests_;
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return requests_.size();
  }
  // Returns the spans of all requests so far.
  std::vector<otlp::Span> spans() {
    std::vector<otlp::Span> all;
    for (const std::string& request : wait_for(0)) {
      otlp::ExportTraceServiceRequest message;
      EXPECT_TRUE(message.ParseFromString(body_of(request)));
      for (const auto& span : message.resource_spans(0).scope_spans(0).spans()) all.push_back(span);
    }
    return all;
  }
  static std::string body_of(const std::string& request) { return request.substr(request.find("\r\n\r\n") + 4); }

  launcherd::OtlpOptions options() const {
    launcherd::OtlpOptions options;
    options.url = {.is_tls = context_ != nullptr, .host = "127.0.0.1", .port = port_, .path = "/v1/traces"};
    options.service_name = "test";
    return options;
  }

 private:
  void serve() {
    for (;;) {
      base::UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!fd.valid()) return;
      std::unique_ptr<SSL, void (*)(SSL*)> ssl(nullptr, ::SSL_free);
      if (context_ != nullptr) {
        ssl.reset(::SSL_new(context_));
        ::SSL_set_fd(ssl.get(), fd.get());
        if (::SSL_accept(ssl.get()) != 1) continue;
      }
      const std::string request = read_request(fd.get(), ssl.get());
      if (request.empty()) continue;
      answer(fd.get(), ssl.get(), request);
    }
  }
  static std::string read_request(int fd, SSL* ssl) {
    std::string text;
    char buffer[16384];
    for (;;) {
      const auto head = text.find("\r\n\r\n");
      if (head != std::string::npos) {
        const auto length = text.find("Content-Length: ");
        if (text.size() >= head + 4 + std::stoul(text.substr(length + 16))) return text;
      }
      const long count = ssl != nullptr ? ::SSL_read(ssl, buffer, sizeof buffer) : ::read(fd, buffer, sizeof buffer);
      if (count <= 0) return "";
      text.append(buffer, static_cast<std::size_t>(count));
    }
  }
  void answer(int fd, SSL* ssl, const std::string& request) {
    std::string reply = FakeCollector::reply(200);
    {
      std::unique_lock lock(mutex_);
      requests_.push_back(request);
      changed_.notify_all();
      if (!replies_.empty()) {
        reply = replies_.front();
        replies_.pop_front();
      }
      if (reply.empty()) changed_.wait(lock, [this] { return is_over_; });
    }
    if (ssl != nullptr) {
      if (!reply.empty()) ::SSL_write(ssl, reply.data(), static_cast<int>(reply.size()));
      ::SSL_shutdown(ssl);
    } else {
      ::send(fd, reply.data(), reply.size(), MSG_NOSIGNAL);
    }
  }

  SSL_CTX* const context_;
  base::UniqueFd listener_;
  int port_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> replies_;
  std::vector<std::string> requests_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace muster::testing_support
