// An HttpExchange without a connection, which keeps what was answered.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "launcherd/web/http_exchange.h"

namespace muster::launcherd::inline web {

class FakeExchange final : public HttpExchange {
 public:
  void add_header(std::string_view name, std::string_view value) override {
    headers += fmt::format("{}: {}\n", name, value);
  }
  void answer(int code, std::string_view type, std::string content) override {
    status = code;
    content_type = type;
    body = std::move(content);
  }
  void begin_events() override { begin_stream("text/event-stream"); }
  void begin_stream(std::string_view type) override {
    status = 200;
    content_type = type;
  }
  void begin_download(std::string_view type, std::string_view) override { begin_stream(type); }
  void send_event(std::string_view id, std::string_view name, std::string_view data) override {
    body += fmt::format("{}|{}|{}\n", id, name, data);
  }
  void send_bytes(std::string bytes) override { body += bytes; }
  void when_written(base::Loop::Task task) override { task(); }
  void end() override { has_ended = true; }
  void on_gone(std::function<void()> left) override { gone = std::move(left); }

  int status = 0;
  std::string content_type;
  std::string headers;
  std::string body;
  bool has_ended = false;
  std::function<void()> gone;
};

}  // namespace muster::launcherd::web
