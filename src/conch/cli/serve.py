"""`conch serve`: run the server in the foreground."""

import argparse
import contextlib
import difflib
import logging
import signal
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING

from conch.catalogue.models import KINDS, checked, components_chosen, detect, find
from conch.cli.arguments import Subparsers, UsageError, add_command, add_flags, number, whole
from conch.cli.gateway import add_gateway_flags, gateway_config, given_gateway_flag
from conch.cli.logs import add_log_flags, announce, with_log
from conch.cli.server import NO_WEIGHTS, WEIGHTS, weights_of
from conch.wire.errors import ServerError
from conch.wire.hosts import host_port, is_loopback

if TYPE_CHECKING:
    from conch.gateway import GatewayConfig, GatewayService
    from conch.launcher import TritonServer

EPILOG = """\
examples:
  conch serve
      the shipped models on 127.0.0.1: OpenAI's API and the web page on 9000; Triton's HTTP on
      8000, gRPC on 8001, metrics on 8002
  conch serve --gateway 0.0.0.0:9000
      the API and the page for other machines too, with keys (conch gateway keys add NAME)
  conch serve --http-port 0 --grpc-port 0 --metrics-port 0 --gateway 0
      any free ports, which are printed when the server is ready
  conch serve --models all
      all models at the start, so that no request waits for one; in more memory
  conch serve --models attention,streaming,rescorer
      the models of these paths and the rescorer, and no others: memory has a limit
  conch serve --whisper base
      another Whisper, here one of 99 languages: conch models lists them and gets them
  conch serve --moonshine tiny
      the small Moonshine, at half the CPU
  conch serve --transducer sherpa-onnx-streaming-zipformer-en-2023-06-26
  conch serve --ctc sherpa-onnx-zipformer-ctc-en-2023-10-02
      a model of your own, for recordings and live audio: docs/guide/your-model.md
  conch serve --piper my_voices
      English voices of Piper, by the names of their files: docs/guide/speech-out.md
  conch serve --model fast=moonshine-tiny --model calls=my_folder
      two more models, for requests with model=fast and model=calls
  conch serve --also-as transducer,streaming_wenet,attention_rescoring,infer_pipeline
      speech also under the names that Triton clients of sherpa, WeNet and FunASR ask for
  conch serve --model-repository bls_models --model-repository my_components
      your components in place of the shipped ones
  conch serve --add-model-repository my_text_steps
      your models in addition to the shipped ones: for the option post, docs/guide/text.md
  conch serve --model-config gpu
      on a GPU, with the configs/gpu.pbtxt of every model that has one: see docs/notes/scaling.md
  conch serve --host 10.0.0.5 --trust-network -- --log-verbose 1 --http-thread-count 16
      Triton's ports too for the machines of a network where everybody is trusted, without keys;
      arguments after -- go to tritonserver

Without --models, what recordings and live audio need without options is loaded at the start, and
your own models. Each other component is loaded when a request first needs it, which waits some
seconds, and stays.

--models takes all, names of models, and these for the components of a path:
  moonshine   vad, moonshine_encoder, moonshine_decoder: recordings without options
  attention   vad, attention_encoder, attention_decoder: recordings with Whisper, which writes all
              without options too where moonshine is missing
  ctc, wfst   vad, ctc_encoder, ctc_decoder: recordings with that decoder, or with --ctc
  transducer  vad, transducer_encoder, transducer_decoder: recordings with --transducer
  paraformer  vad, paraformer: recordings with --paraformer
  paraformer_online  vad, paraformer_online: recordings with --paraformer-online
  sensevoice  vad, sensevoice: recordings with --sensevoice
  kaldi       vad, kaldi_decoder: recordings with --kaldi
  wenet       vad, wenet_encoder, wenet_decoder: recordings with --wenet
  streaming   vad, ctc_streaming_encoder, ctc_streaming_decoder: live streams
  two_pass    those of moonshine and streaming; with --whisper alone, of attention and streaming
The options rescore and accuracy=balanced need neural_rescorer or rescorer; accuracy=best, and with
Whisper balanced, need ctc_encoder and ctc_decoder too; punctuate needs punctuator, itn needs
inverse_normalizer. speech and speech_stream are always loaded. A request that needs a missing model
gets an error that names it.

Ctrl-C or SIGTERM stops the server after the requests in flight; a second one kills it at once.
"""


FLAGS = """
--host HOST=127.0.0.1             address of Triton's ports
--trust-network                   allow --host beyond this machine: everybody who reaches it is
                                  trusted
--http-port PORT=8000               0 takes any free port
--grpc-port PORT=8001               0 takes any free port
--metrics-port PORT=8002          0 takes any free port
--model-repository FOLDER...      in place of the two shipped with Conch
--add-model-repository FOLDER...  serve the models in it too, such as those of the option post
--model-config NAME               use configs/NAME.pbtxt in place of config.pbtxt for every model
                                  that has one
--models NAME[,NAME…]             load these, speech and speech_stream at the start, and no others
                                  later; all for all (default and names: see below)
--model [NAME=]MODEL...           serve a model of yours: a folder of any kind that conch models
                                  inspect names, or a name that conch models lists. With NAME,
                                  beside the others: a request chooses it by the option model.
                                  Without, in place of those of its kind
--piper FOLDER                    speak with the voices of Piper in it too: NAME.onnx and
                                  NAME.onnx.json of each
--also-as NAME[,NAME…]            serve speech under these names too, for clients that insist on
                                  them; no name chooses a decoder
--voices-from-recordings          fit voices to recordings, and let requests for speech name a
                                  recording whose voice they want: you have the consent of whoever
                                  is heard
--voice-consent SENTENCE          with --voices-from-recordings: fit a voice only with a recording
                                  of the person who says this
--tritonserver PATH               the server to run (default: from PATH, else from the
                                  nvidia-pytriton wheel)
--startup-timeout SECONDS=120     time for the models of the start to load
--open-components                 let any client of Triton's ports call the components, for tests
                                  of them; all are loaded at the start
"""
ALL = "all"


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "serve",
        run,
        help="run Triton with the speech models",
        description="Run Triton with Conch's models until Ctrl-C or SIGTERM.",
        epilog=EPILOG,
    )
    types = {
        "model": _model,
        **dict.fromkeys(("http_port", "grpc_port", "metrics_port"), whole(0, 65535)),
        "startup_timeout": number("a number of seconds above 0", lambda seconds: seconds > 0),
    }
    none = dict.fromkeys(("model_config", "models", "voice_consent"), "")
    add_flags(parser, FLAGS + WEIGHTS, **none, **NO_WEIGHTS, **types)
    add_log_flags(parser)
    add_gateway_flags(parser, "--gateway")
    parser.add_argument("--no-gateway", action="store_true", help="open Triton's ports alone")
    parser.add_argument(
        "tritonserver_args",
        nargs="*",
        metavar="-- ARGUMENTS",
        help="passed to tritonserver unchanged",
    )
    parser.set_defaults(parser=parser)


def run(args: argparse.Namespace) -> int:
    if args.tritonserver_args and not args.tritonserver_args[0].startswith("-"):
        raise UsageError(f"unexpected argument: {args.tritonserver_args[0]}")
    if args.voice_consent and not args.voices_from_recordings:
        raise UsageError("--voice-consent goes with --voices-from-recordings")
    if args.no_gateway and (flag := given_gateway_flag(args, args.parser)):
        raise UsageError(f"{flag} is for the gateway, which --no-gateway leaves out")
    return with_log(args, lambda: _serve(args))


def _make_server(
    args: argparse.Namespace, weights: Mapping[str, str], named: Mapping[str, str]
) -> "TritonServer":
    from conch.launcher import ServerConfig, TritonServer
    from conch.launcher.repositories import shipped_repositories

    if not is_loopback(args.host):
        if not args.trust_network:
            raise ServerError(
                f"--host {args.host} would open Triton's ports to a network: they have no keys, "
                "and one wrong HTTP request ends the server. Open the gateway instead, with keys: "
                f"--gateway {host_port(args.host, 9000)}. Where everybody who reaches this machine "
                "is trusted, add --trust-network"
            )
        logging.getLogger("conch").warning(
            "Triton's ports listen on %s without authentication: any client that reaches them can "
            "send requests and end the server",
            args.host,
        )
    repositories = args.model_repository or shipped_repositories()
    also_as = () if args.also_as is None else map(str.strip, args.also_as.split(","))
    same = (
        *("host", "http_port", "grpc_port", "metrics_port", "tritonserver", "model_config"),
        *("open_components", "log_level", "voices_from_recordings", "voice_consent"),
    )
    config = ServerConfig(
        weights=weights,
        named=named,
        models=models_named(args.models, components_chosen(weights)),
        on_demand=not (args.models or args.open_components),
        also_as=also_as,
        model_repositories=(*repositories, *args.add_model_repository),
        startup_timeout_s=args.startup_timeout,
        warm_up=True,
        extra_args=args.tritonserver_args,
        **{name: getattr(args, name) for name in same},
    )
    return TritonServer(config)


def _chosen(args: argparse.Namespace) -> tuple[dict[str, str], dict[str, str]]:
    """Return the models that flags choose: by kind, and by the names that they get."""
    weights, named = weights_of(args), dict[str, str]()
    for name, model in args.model:
        key, those = (name, named) if name else (detect(model)[0].name, weights)
        if key in those:
            raise UsageError(
                f"--model {model}: {key} is {those[key]} already; to have both, give one another "
                f"name: --model NAME={model}"
            )
        those[key] = model
    return weights, named


def _model(text: str) -> tuple[str, str]:
    """Return name and folder of a `--model`; the name is empty if there is none."""
    name, equals, folder = text.partition("=")
    name, folder = (name, folder) if equals and "/" not in name else ("", text)
    if not folder or text.startswith("="):
        raise argparse.ArgumentTypeError(f"[NAME=]MODEL, as fast=my_folder; got {text!r}")
    return name, folder


def models_named(names: str, chosen: Collection[str] = ()) -> tuple[str, ...]:
    """Return the models and entry points that `--models` names; none for all.

    A path has the decoder whose components are `chosen`, if it has no other.
    """
    from conch.families import traits, voices
    from conch.families.family import TO_SPEECH
    from conch.wire.entry_points import ENTRY_POINTS, SYNTHESIS
    from conch.wire.needs import PATHS, components_of_path
    from conch.wire.synthesis import DEFAULT_VOICE

    models = list(ENTRY_POINTS)
    requested = [*filter(None, map(str.strip, names.split(",")))]
    if not requested or ALL in requested:
        return ()
    for name in requested:
        if name not in PATHS and (close := difflib.get_close_matches(name, PATHS, 1, 0.8)):
            raise ServerError(f"--models: no path or model {name!r}; did you mean {close[0]}?")
        models += components_of_path(name, chosen) if name in PATHS else [name]
        if name == SYNTHESIS[0]:
            speaking = (item for item in chosen if traits()[item].step in TO_SPEECH)
            models += (SYNTHESIS[1], *voices()[DEFAULT_VOICE].components, *speaking)
    return tuple(models)


def _serve(args: argparse.Namespace) -> int:
    weights, named = _chosen(args)
    server = _make_server(args, weights, named)
    gateway = None if args.no_gateway else _checked_gateway(args, weights)
    is_stopping = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal is_stopping
        if is_stopping:
            server.kill()
            return
        is_stopping = True
        raise KeyboardInterrupt

    for end in (signal.SIGINT, signal.SIGTERM):
        signal.signal(end, on_signal)
    try:
        # The gateway ends first: its clients' requests need the server.
        with server, _gateway(gateway, server) as service:
            more = {**{KINDS[name].title: model for name, model in weights.items()}, **named}
            url, openness = (service.url, service.openness) if service else ("", "")
            more |= service.other_urls if service else {}
            if args.also_as:
                more["also as"] = _also_as(args.also_as, weights, server)
            announce(args, _welcome(server, url, openness, more))
            server.keep_serving()
    except KeyboardInterrupt:
        pass
    return 0


def _checked_gateway(args: argparse.Namespace, weights: Mapping[str, str]) -> "GatewayConfig":
    from conch.gateway import GatewayService
    from conch.launcher.endpoints import require_free, resolve_host
    from conch.wire.languages import LANGUAGES

    config = gateway_config(args)
    if "whisper" in weights and not args.wyoming_languages:
        kind = KINDS["whisper"]
        if (checked(kind, find(kind, weights["whisper"])).languages or 0) > 1:
            config = replace(config, languages=tuple(LANGUAGES))
    GatewayService(config)
    others = {"--wyoming": config.wyoming, "--riva": config.riva}
    for flag, address in {"--gateway": (config.host, config.port), **others}.items():
        if address and address[1]:
            require_free(resolve_host(address[0]), address[1], flag)
    return config


@contextlib.contextmanager
def _gateway(
    config: "GatewayConfig | None", server: "TritonServer"
) -> "Iterator[GatewayService | None]":
    if config is None:
        yield None
        return
    from conch.cli.heal_metrics import HealMetrics
    from conch.gateway import GatewayService

    config = replace(config, servers=(f"grpc://{server.grpc_url}",))
    heals = HealMetrics(server, (*server.models(), *server.on_demand))
    with GatewayService(config, [heals]) as service:
        yield service


def _also_as(names: str, weights: Mapping[str, str], server: "TritonServer") -> str:
    """Return the further names of `speech`, and the decoder that writes behind all of them."""
    from conch.families import all_components
    from conch.wire.needs import options_to_serve

    lacking = {item.name for item in all_components()}.difference(server.models(), server.on_demand)
    options = options_to_serve({}, lacking=lacking, chosen=components_chosen(weights))
    return f"{names} (all are speech; without options its text is of decoder={options.decoder})"


def _welcome(
    server: "TritonServer", gateway_url: str, openness: str, more: Mapping[str, str]
) -> str:
    gateway = f"  gateway  {gateway_url}  (the page, and OpenAI's API under /v1)\n"
    gateway = f"{gateway}  for      {openness}\n" if gateway_url else ""
    chosen = "".join(f"  {name:8} {model}\n" for name, model in more.items())
    later = ", ".join(server.on_demand)
    later = f"  later    {later} (when a request needs them)\n" if later else ""
    key = "-H 'Authorization: Bearer KEY' " if openness.endswith("with a key") else ""
    hint = (
        f"Try: curl -F file=@talk.mp3 {key}{gateway_url}/v1/audio/transcriptions\n"
        if gateway_url
        else f"Try: curl http://{server.http_url}/v2/models/speech/config\n"
    )
    return (
        "Conch is ready.\n"
        f"{gateway}"
        f"  HTTP     http://{server.http_url}\n"
        f"  gRPC     grpc://{server.grpc_url}\n"
        f"  metrics  {server.metrics_url}\n"
        f"  models   {', '.join(server.models())}\n"
        f"{later}"
        f"{chosen}"
        f"{hint}"
        "Ctrl-C stops it."
    )
