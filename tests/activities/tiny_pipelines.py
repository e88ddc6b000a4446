"""Pipelines with random weights, small enough to be built by a test: pictures of nothing, fast."""

import json
import string
from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers

from activities.engines.base import ImageDone, LocalEvent, StepDone
from activities.engines.diffusers import DiffusersEngine
from activities.engines.diffusers_settings import DiffusersSettings
from activities.models import GenerationParameters

# The bytes that print as themselves, as in CLIP's tokenizer; the others are moved behind them.
_PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]


def stable_diffusion(folder: Path, **components: Any) -> Path:
    """Save a StableDiffusionPipeline (1 million weights) in the folder."""
    torch.manual_seed(1)
    parts = {
        "vae": _vae(),
        "text_encoder": transformers.CLIPTextModel(_text_config()),
        "tokenizer": _tokenizer(folder),
        "unet": _unet(cross_attention_dim=32),
        "scheduler": _noise_scheduler(),
        "safety_checker": None,
        "feature_extractor": None,
        "requires_safety_checker": False,
    }
    return _saved(diffusers.StableDiffusionPipeline(**{**parts, **components}), folder)


def stable_diffusion_xl(folder: Path) -> Path:
    """Save a StableDiffusionXLPipeline in the folder."""
    torch.manual_seed(2)
    unet = _unet(
        cross_attention_dim=64,
        addition_embed_type="text_time",
        addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=6 * 8 + 32,
    )
    pipeline = diffusers.StableDiffusionXLPipeline(
        vae=_vae(),
        text_encoder=transformers.CLIPTextModel(_text_config()),
        text_encoder_2=transformers.CLIPTextModelWithProjection(_text_config()),
        tokenizer=_tokenizer(folder),
        tokenizer_2=_tokenizer(folder),
        unet=unet,
        scheduler=_noise_scheduler(),
        add_watermarker=False,
    )
    return _saved(pipeline, folder)


def stable_diffusion_3(folder: Path) -> Path:
    """Save a StableDiffusion3Pipeline, which flows, in the folder."""
    torch.manual_seed(3)
    transformer = diffusers.SD3Transformer2DModel(
        sample_size=32,
        patch_size=2,
        in_channels=4,
        out_channels=4,
        num_layers=1,
        attention_head_dim=8,
        num_attention_heads=4,
        joint_attention_dim=64,
        caption_projection_dim=32,
        pooled_projection_dim=64,
    )
    pipeline = diffusers.StableDiffusion3Pipeline(
        transformer=transformer,
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=_vae(shift_factor=0.06, scaling_factor=1.5),
        text_encoder=transformers.CLIPTextModelWithProjection(_text_config()),
        tokenizer=_tokenizer(folder),
        text_encoder_2=transformers.CLIPTextModelWithProjection(_text_config()),
        tokenizer_2=_tokenizer(folder),
        text_encoder_3=transformers.T5EncoderModel(_t5_config()),
        tokenizer_3=_t5_tokenizer(),
    )
    return _saved(pipeline, folder)


def flux(folder: Path) -> Path:
    """Save a FluxPipeline, which packs its latents two by two, in the folder."""
    torch.manual_seed(4)
    transformer = diffusers.FluxTransformer2DModel(
        patch_size=1,
        in_channels=16,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=64,
        pooled_projection_dim=32,
        axes_dims_rope=(4, 4, 8),
    )
    pipeline = diffusers.FluxPipeline(
        transformer=transformer,
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        vae=_vae(shift_factor=0.06, scaling_factor=1.5),
        text_encoder=transformers.CLIPTextModel(_text_config()),
        tokenizer=_tokenizer(folder),
        text_encoder_2=transformers.T5EncoderModel(_t5_config()),
        tokenizer_2=_t5_tokenizer(),
    )
    return _saved(pipeline, folder)


def safety_checker(*, rejects: bool) -> dict[str, Any]:
    """Components for `stable_diffusion`: a checker that finds everything unsafe, or nothing."""
    vision = transformers.CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=37,
        num_hidden_layers=1,
        num_attention_heads=4,
        image_size=30,
        patch_size=6,
        projection_dim=32,
    )
    config = transformers.CLIPConfig(
        text_config=_text_config().to_dict(), vision_config=vision.to_dict(), projection_dim=32
    )
    checker = diffusers.pipelines.stable_diffusion.StableDiffusionSafetyChecker(config)
    threshold = -2.0 if rejects else 2.0
    checker.concept_embeds_weights.data.fill_(threshold)
    checker.special_care_embeds_weights.data.fill_(2.0)
    extractor = transformers.CLIPImageProcessorPil(
        size={"shortest_edge": 30}, crop_size={"height": 30, "width": 30}
    )
    return {
        "safety_checker": checker,
        "feature_extractor": extractor,
        "requires_safety_checker": True,
    }


def broken_unet() -> Any:
    """A denoiser that predicts NaN."""
    unet = _unet(cross_attention_dim=32)
    unet.conv_out.bias.data.fill_(float("nan"))
    return unet


def broken_vae() -> Any:
    """A decoder whose pictures are NaN."""
    vae = _vae()
    vae.post_quant_conv.bias.data.fill_(float("nan"))
    return vae


def _saved(pipeline: Any, folder: Path) -> Path:
    pipeline.save_pretrained(folder)
    return folder


def _noise_scheduler() -> Any:
    return diffusers.DDIMScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        clip_sample=False,
        set_alpha_to_one=False,
        steps_offset=1,
    )


def _unet(**settings: Any) -> Any:
    return diffusers.UNet2DConditionModel(
        sample_size=16,
        in_channels=4,
        out_channels=4,
        block_out_channels=(32, 64),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        attention_head_dim=8,
        norm_num_groups=8,
        **settings,
    )


def _vae(**settings: Any) -> Any:
    """A decoder to 8 × 8 pixels for each latent."""
    return diffusers.AutoencoderKL(
        block_out_channels=(8, 8, 8, 8),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        latent_channels=4,
        norm_num_groups=8,
        **settings,
    )


def _text_config() -> Any:
    return transformers.CLIPTextConfig(
        vocab_size=514,
        hidden_size=32,
        intermediate_size=37,
        projection_dim=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=77,
        bos_token_id=512,
        eos_token_id=513,
        pad_token_id=513,
    )


def _tokenizer(folder: Path) -> Any:
    """Each byte is a token, at a word's end another one."""
    letters = [chr(byte) for byte in _PRINTABLE] + [chr(256 + n) for n in range(68)]
    tokens = [
        *letters,
        *(f"{letter}</w>" for letter in letters),
        "<|startoftext|>",
        "<|endoftext|>",
    ]
    source = folder.with_name(f"{folder.name}-tokens")
    source.mkdir(parents=True, exist_ok=True)
    vocabulary, merges = source / "vocab.json", source / "merges.txt"
    vocabulary.write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
    merges.write_text("#version: 0.2\n")
    return transformers.CLIPTokenizer(str(vocabulary), str(merges), model_max_length=77)


def _t5_config() -> Any:
    return transformers.T5Config(
        vocab_size=30, d_model=64, d_ff=37, d_kv=8, num_layers=1, num_heads=4, is_decoder=False
    )


def _t5_tokenizer() -> Any:
    """Each letter is a token."""
    marks = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0)]
    letters = [(letter, -3.0) for letter in string.ascii_lowercase]
    return transformers.T5Tokenizer(vocab=marks + letters, extra_ids=0, model_max_length=77)


def loaded(folder: Path, threads: int = 1) -> DiffusersEngine:
    """The engine with the pipeline in the folder, in this process."""
    engine = DiffusersEngine(DiffusersSettings(model=str(folder), device="cpu", threads=threads))
    engine.load()
    return engine


def job(steps: int = 5, **options: Any) -> GenerationParameters:
    """A small picture."""
    return GenerationParameters(
        prompt="a lake at sunset",
        width=64,
        height=64,
        num_inference_steps=steps,
        seed=11,
        engine_options=options,
    )


def run(
    engine: DiffusersEngine, parameters: GenerationParameters, checkpoint: bytes | None = None
) -> list[LocalEvent]:
    """All events of a job."""
    return list(engine.run(parameters, checkpoint))


def image_of(events: list[LocalEvent]) -> bytes:
    """The image in which the job has ended."""
    image = events[-1]
    assert isinstance(image, ImageDone)
    return image.data


def snapshots(engine: DiffusersEngine, parameters: GenerationParameters) -> list[bytes]:
    """The checkpoints after each step of an undisturbed run."""
    return [
        event.snapshot()
        for event in engine.run(parameters, None)
        if isinstance(event, StepDone) and event.snapshot is not None
    ]
