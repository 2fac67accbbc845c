// JSON fields that both workers' messages and reports contain.
#pragma once

#include "bench/base/json_fields.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/case.hpp"

namespace p5 {

void fields(auto& archive, Is<CallOptions> auto& calls) {
  archive.must("cuda_graph", calls.cuda_graph);
  archive.must("register", json_fields::one_of(calls.registration, registration_kinds));
  archive.some("aggregate", json_fields::omitted_if(calls.aggregate == 1, json_fields::at_least(1, calls.aggregate)));
  archive.some("cta_policy", json_fields::omitted_if(calls.cta_policy == "default",
                                                     json_fields::one_of(calls.cta_policy, cta_policies)));
  archive.some("unalign", json_fields::omitted_if(calls.unalign == 0, json_fields::at_least(0, calls.unalign)));
}

void fields(auto& archive, Is<WrongElement> auto& first) {
  archive.must("rank", first.rank);
  archive.must("offset", first.offset);
  archive.must("wanted", first.wanted);
  archive.must("got", first.got);
  archive.must("guard", first.guard);
  archive.some("work", first.work);
}

void fields(auto& archive, Is<ConcurrentRequest> auto& request) {
  archive.must("operations", request.operations);
  archive.must("samples", request.samples);
  archive.must("poison_last", request.poison_last);
  archive.must("steady", request.steady);
  archive.some("setting", request.setting);
}

void fields(auto& archive, Is<FailureContext> auto& words) {
  archive.must("log", words.log);
  archive.must("library_status", words.library_status);
}

void fields(auto& archive, Is<Verification> auto& verification) {
  archive.must("wrong_elements", verification.wrong_elements);
  archive.must("first", verification.first);
  archive.must("wrong_ranks", verification.wrong_ranks);
}

void fields(auto& archive, Is<Selection> auto& selection) {
  archive.must("algorithm", selection.algorithm);
  archive.must("protocol", selection.protocol);
  archive.must("channels", selection.channels);
  archive.must("source", selection.source);
  archive.some("memory", selection.memory);
}

void fields(auto& archive, Is<ComputeCheck> auto& check) {
  archive.must("digests", check.digests);
  archive.must("library", check.library);
  archive.must("corruption", check.corruption);
  archive.some("partner", check.partner);
  archive.some("under_load", check.under_load);
  archive.some("in_messages", check.in_messages);
  archive.must("not_measured", check.not_measured);
  archive.some("fp8_not_measured", check.fp8_not_measured);
}

// Between ranks.
void fields(auto& archive, Is<LocalChecks> auto& checks) {
  archive.must("figures", checks.figures);
  archive.must("compute", checks.compute);
}

void fields(auto& archive, Is<Offer> auto& offer) {
  archive.must("setting", offer.setting);
  archive.must("microseconds", json_fields::any(offer.microseconds));
  archive.must("chosen", offer.chosen);
}

}  // namespace p5
