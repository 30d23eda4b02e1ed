#include "agent/pmi/pmi_names.h"

#include <fmt/format.h>

namespace muster::agent::inline pmi {
namespace {

constexpr std::string_view kNamesScope = "pmi";  // the scope of the keys; the rest of PMI uses it, too
constexpr const char* kPublished = "publish_result";
constexpr const char* kLookedUp = "lookup_result";
constexpr const char* kUnpublished = "unpublish_result";

std::string key_of_service(const std::string& service) {
  return "pmi/name/" + service;
}

std::string refusal(const char* result, const char* why) {
  return fmt::format("cmd={} rc=-1 msg={}\n", result, why);
}

}  // namespace

bool PmiNames::take(int rank, const PmiCommand& command) {
  const std::string service(command.word("service"));
  if (command.name == "publish_name") {
    publish(rank, service, std::string(command.word("port")));
  } else if (command.name == "lookup_name") {
    look_up(rank, service);
  } else if (command.name == "unpublish_name") {
    unpublish(rank, service);
  } else {
    return false;
  }
  return true;
}

void PmiNames::answer(int rank, const std::string& line) {
  loop_.post(gate_.wrap([this, rank, line] { answer_(rank, line); }));
}

void PmiNames::get(const std::string& service, Found found) {
  keys_.get(kNamesScope, key_of_service(service), gate_.wrap([this, found = std::move(found)](auto value) {
    // Continue on the loop, because the key store must not be called from within its own answer.
    loop_.post(gate_.wrap([found, value = std::move(value)] { found(value); }));
  }));
}

std::function<void(base::Status)> PmiNames::answer_of_keys(int rank, const char* result) {
  return gate_.wrap([this, rank, result](const base::Status& status) {
    answer(rank, status.ok() ? fmt::format("cmd={} rc=0 msg=success\n", result) : refusal(result, "not_stored"));
  });
}

void PmiNames::publish(int rank, const std::string& service, const std::string& port) {
  if (service.empty() || port.empty()) return answer(rank, refusal(kPublished, "no_name_or_port"));
  get(service, [this, rank, service, port](const base::Result<rendezvous::HorovodValue>& there) {
    if (!there.ok()) return answer(rank, refusal(kPublished, "not_stored"));
    if (*there != nullptr) return answer(rank, refusal(kPublished, "published_already"));
    keys_.put(kNamesScope, key_of_service(service), rendezvous::make_horovod_value(port),
              answer_of_keys(rank, kPublished));
  });
}

void PmiNames::look_up(int rank, const std::string& service) {
  get(service, [this, rank](const base::Result<rendezvous::HorovodValue>& there) {
    if (!there.ok() || *there == nullptr) return answer(rank, refusal(kLookedUp, "not_published"));
    answer(rank, fmt::format("cmd={} rc=0 msg=success port={}\n", kLookedUp, **there));
  });
}

void PmiNames::unpublish(int rank, const std::string& service) {
  get(service, [this, rank, service](const base::Result<rendezvous::HorovodValue>& there) {
    if (!there.ok() || *there == nullptr) return answer(rank, refusal(kUnpublished, "not_published"));
    keys_.finish(kNamesScope, key_of_service(service), answer_of_keys(rank, kUnpublished));
  });
}

}  // namespace muster::agent::pmi
