#include "launcherd/web/openapi.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "base/strings.h"
#include "launcherd/web/rest_route.h"

namespace muster::launcherd::openapi_test {
namespace {

class Openapi : public ::testing::Test {
 protected:
  Openapi() : document_(base::parse_json(openapi_document()).value()) {}

  const base::JsonNode* operation(std::string_view path, std::string_view method) const {
    const base::JsonNode* const at = document_.find("paths")->find(path);
    return at == nullptr ? nullptr : at->find(method);
  }

  const base::JsonNode document_;
};

TEST_F(Openapi, HasAnOperationForEachRoute) {
  for (const RestRoute& route : rest_routes()) {
    const auto* const found = operation("/" + std::string(route.path), base::lower(route.method));
    ASSERT_NE(found, nullptr) << route.path;
    EXPECT_EQ(found->text_at("operationId"), route.call);
    EXPECT_EQ(found->find("requestBody") != nullptr, route.is_write()) << route.call;
    EXPECT_EQ(found->array_at("security").size(), route.is_write() ? 1U : 0U) << route.call;
    EXPECT_NE(found->find("responses")->find("default"), nullptr) << route.call;
  }
}

TEST_F(Openapi, DescribesArguments) {
  const auto& parameters = operation("/jobs/{job}/logs", "get")->array_at("parameters");
  std::vector<std::string> names;
  for (const auto& parameter : parameters) names.emplace_back(parameter.text_at("name"));
  EXPECT_EQ(names, (std::vector<std::string>{"job", "Last-Event-ID", "follow", "ranks", "from_position", "since",
                                             "tail_lines"}));
  EXPECT_TRUE(parameters[0].is_true_at("required"));
}

void check_references(const base::JsonNode& node, const base::JsonNode& schemas) {
  constexpr std::string_view kPrefix = "#/components/schemas/";
  const std::string_view reference = node.text_at("$ref");
  if (reference.starts_with(kPrefix)) {
    EXPECT_NE(schemas.find(reference.substr(kPrefix.size())), nullptr) << reference;
  }
  for (const base::JsonNode& item : node.items) check_references(item, schemas);
}

TEST_F(Openapi, HasAllThatItRefersTo) {
  check_references(document_, *document_.find("components")->find("schemas"));
}

}  // namespace
}  // namespace muster::launcherd::openapi_test
